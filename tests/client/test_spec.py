"""Reading a job file, and packing a folder."""

import base64
import io
import os
import tarfile
from pathlib import Path

import pytest

from client import pack, spec
from client.errors import LocalFault


def test_numbers_stay_as_they_were_written() -> None:
    assert spec.read_text(
        "max_price: 3.20\nresources: {cpus: 0.50, accelerators: {A100: 2}}\npriority: 5\nat: 2026-11-30"
    ) == {
        "max_price": "3.20",
        "resources": {"cpus": "0.50", "accelerators": {"A100": 2}},
        "priority": 5,
        "at": "2026-11-30",
    }


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("run: a\nrun: b", "duplicate_key"),
        ("a: [", "unparseable"),
        ("- a", "unparseable"),
        ("", "unparseable"),
        ("a: 1\n---\nb: 2", "unparseable"),
        ("run: " + "x" * spec.LARGEST, "spec_too_large"),
        ("!!python/object/apply:os.system ['true']", "unparseable"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(text: str, code: str) -> None:
    with pytest.raises(LocalFault) as wrong:
        spec.read_text(text)
    assert wrong.value.code == code


def test_a_missing_file_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(LocalFault, match=r"no\.yaml"):
        spec.read_file(tmp_path / "no.yaml")


def test_variables_and_project_are_filled_in(tmp_path: Path) -> None:
    whole = spec.prepared(
        {"run": "x", "envs": {"A": None, "B": "2"}}, base=tmp_path, envs=["A=1", "C=x=y"], project="vision"
    )
    assert whole == {"run": "x", "envs": {"A": "1", "B": "2", "C": "x=y"}, "project": "vision"}
    assert spec.prepared({"run": "x", "project": "own"}, base=tmp_path, envs=[], project="vision")["project"] == "own"


@pytest.mark.parametrize("word", ["A", "=1"])
def test_an_env_without_a_value_is_refused(tmp_path: Path, word: str) -> None:
    with pytest.raises(LocalFault):
        spec.prepared({"run": "x"}, base=tmp_path, envs=[word], project="")


def test_workdir_is_packed_the_same_each_time(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a.py").write_text("print(1)")
    (folder / "link").symlink_to("sub/a.py")
    whole = spec.prepared({"run": "x", "workdir": "code"}, base=tmp_path, envs=[], project="")
    assert whole == spec.prepared({"run": "x", "workdir": "code"}, base=tmp_path, envs=[], project="")
    packed = base64.b64decode(whole["workdir"].removeprefix(pack.PREFIX))
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        assert sorted(tar.getnames()) == ["link", "sub", "sub/a.py"]
        assert {member.uid for member in tar} == {0}


def test_workdir_refuses_what_it_cannot_pack(tmp_path: Path) -> None:
    with pytest.raises(LocalFault, match="not a folder"):
        pack.into({"workdir": "nowhere"}, tmp_path)
    (tmp_path / "large").write_bytes(os.urandom(pack.LARGEST_PACKED + 1))
    with pytest.raises(LocalFault, match="700 KiB"):
        pack.into({"workdir": "."}, tmp_path)
    os.mkfifo(tmp_path / "a-pipe")
    with pytest.raises(LocalFault, match="a-pipe"):
        pack.into({"workdir": "."}, tmp_path)


def test_what_is_packed_already_stays(tmp_path: Path) -> None:
    assert pack.into({"workdir": "artefact://code"}, tmp_path) == {"workdir": "artefact://code"}
