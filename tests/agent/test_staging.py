"""Files in and out: resumed, checked, and never read through a link that the job laid."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import os
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent import protocol as wire
from agent import staging
from agent.protocol import FileKind, Input, Output, Reason, Source
from agent.staging import StagingError, bring_inputs, open_output, take_outputs
from agent.transport import Portal, Refused
from tests.agent.peer import Peer, Problem
from tests.agent.test_machine import SPEC


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    return folder


def archive(**files: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def content(path: str, data: bytes, **more: Any) -> Input:
    return Input(path, Source.CONTENT, content=base64.b64encode(data).decode(), **more)


class Staged:
    """A portal with one active attempt, and a node that brings or takes its files."""

    def __init__(self, peer: Peer, folder: Path) -> None:
        self.peer = peer
        self.folder = folder
        self.private = True  # the web server of these tests is no public one
        self.uid: int | None = None

    def _with_portal(self, act: Callable[[Portal], Any]) -> Any:
        async def work() -> Any:
            portal = Portal(self.peer.url, self.peer.node, self.peer.secret)
            portal.boot_id, portal.incarnation, portal.private_inputs = "boot", 1, self.private
            try:
                return await act(portal)
            finally:
                await portal.close()

        return asyncio.run(work())

    def spec(self, **more: Any) -> wire.AssignmentSpec:
        attempt = self.peer.assign("true", **more)
        self.peer.leases[attempt].state = "active"
        return self.peer.leases[attempt].spec

    def bring(self, *inputs: Input, **more: Any) -> None:
        spec = self.spec(inputs=inputs, **more)
        self._with_portal(lambda portal: bring_inputs(spec, self.folder, portal, self.uid))

    def take(self, *outputs: Output) -> tuple[wire.UploadedOutput, ...]:
        self.last = self.spec(outputs=outputs)
        return tuple(self._with_portal(lambda portal: take_outputs(self.last, self.folder, portal)))

    @property
    def received(self) -> dict[str, bytes]:
        return self.peer.leases[self.last.attempt].outputs


@pytest.fixture
def staged(portal: Peer, job: Path) -> Staged:
    return Staged(portal, job)


def test_inputs_of_every_source(staged: Staged, job: Path) -> None:
    staged.peer.files["x.bin"] = b"from the web"
    digest = hashlib.sha256(b"from the web").hexdigest()
    staged.bring(
        content("/job/a/b.txt", b"inline"),
        Input("w.bin", Source.HTTPS, url=f"{staged.peer.url}/files/x.bin", sha256=digest, size=12, executable=True),
        Input("/job/p.bin", Source.PORTAL),
        contents={2: b"from the portal"},
    )
    assert (job / "a/b.txt").read_bytes() == b"inline"
    assert (job / "w.bin").read_bytes() == b"from the web"
    assert os.access(job / "w.bin", os.X_OK)
    assert (job / "p.bin").read_bytes() == b"from the portal"


def test_a_foreign_address_never_sees_the_nodes_sign_in(staged: Staged) -> None:
    seen: list[Any] = []
    staged.peer.files["x"] = b"1"
    whole = staged.peer.handle

    async def spy(method: str, path: str, headers: Any, query: Any, body: bytes) -> Any:
        if path.startswith("/files/"):
            seen.append(dict(headers))
        return await whole(method, path, headers, query, body)

    staged.peer.handle = spy  # type: ignore[method-assign]
    staged.bring(Input("x", Source.HTTPS, url=f"{staged.peer.url}/files/x"))
    assert seen
    assert not {"authorization", "idlewild-lease"} & set(seen[0])


@pytest.mark.parametrize("path", ["/job", "/job/"])
def test_the_working_directory_itself_comes_as_an_archive(staged: Staged, job: Path, path: str) -> None:
    """`workdir` of a spec: its files lie in /job itself, beside the other inputs."""
    staged.bring(content(path, archive(**{"d/one": b"1", "two": b"2"}), unpack=True), content("plain", b"3"))
    assert [(job / name).read_bytes() for name in ("d/one", "two", "plain")] == [b"1", b"2", b"3"]


def test_archives_are_unpacked_below_their_place(staged: Staged, job: Path) -> None:
    staged.bring(
        content("/job/w", archive(**{"d/one": b"1", "two": b"2"}), unpack=True),
        content("k", archive(x=b"3"), kind=FileKind.DIRECTORY),
    )
    assert (job / "w/d/one").read_bytes() == b"1"
    assert (job / "w/two").read_bytes() == b"2"
    assert (job / "k/x").read_bytes() == b"3"


@pytest.mark.parametrize(
    ("item", "says"),
    [
        (Input("x", Source.CONTENT, content="%%"), "not base64"),
        (content("x", b"abc", size=4), "3 bytes came, 4 were announced"),
        (content("x", b"abc", sha256="0" * 64), "sha256 differs"),
        (content("x", b"not a tar", unpack=True), "not a usable tar"),
        (content("x", archive(**{"../out": b"!"}), unpack=True), "not a usable tar"),
        (content("x", archive(**{"/etc/out": b"!"}), unpack=True), ""),
    ],
    ids=["base64", "size", "hash", "garbage", "climbs", "absolute"],
)
def test_unusable_inputs(staged: Staged, job: Path, item: Input, says: str) -> None:
    if not says:  # an absolute member is taken below the folder
        staged.bring(item)
        assert (job / "x/etc/out").read_bytes() == b"!"
        return
    with pytest.raises(StagingError, match=says) as caught:
        staged.bring(item)
    assert caught.value.reason is Reason.INPUT_UNREADABLE
    assert not (job.parent / "out").exists()


def tar_of(*members: tuple[str, bytes, str]) -> bytes:
    """Members (name, type, target of a link or content)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, kind, text in members:
            info = tarfile.TarInfo(name)
            info.type, info.mode, info.mtime = kind, 0o7777, 1_700_000_000
            if kind == tarfile.REGTYPE:
                info.size = len(text)
            elif kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
                info.linkname = text
            tar.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


REG, SYM, HARD, DIR = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE


def test_what_an_archive_may_hold(staged: Staged, job: Path) -> None:
    """Folders, files (the later of two stays), links below the folder; neither setuid nor a foreign write bit."""
    members = [("d", DIR, ""), ("./d/f", REG, "old"), ("d/f", REG, "new"), ("d/s", SYM, "../e/g"), ("e/h", HARD, "d/f")]
    staged.bring(content("k", tar_of(*members), unpack=True))
    assert (job / "k/d/f").read_text() == (job / "k/e/h").read_text() == "new"
    assert (job / "k/d/f").stat().st_mode & 0o7777 == 0o755
    assert (job / "k/d/f").stat().st_mtime == 1_700_000_000
    assert os.readlink(job / "k/d/s") == "../e/g"


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ([("a/../../x", REG, "!")], "leads out"),
        ([("s", SYM, "/etc")], "links out"),
        ([("d/s", SYM, "../../x")], "links out"),
        ([("h", HARD, "../secret")], "leads out"),
        ([("h", HARD, "/secret")], "No such file"),
        ([("h", HARD, "./")], "own folder"),
        ([("s", SYM, "d"), ("d", DIR, ""), ("s/x", REG, "!")], "Not a directory|Too many levels"),
        ([("null", tarfile.CHRTYPE, "")], "a device or a pipe"),
        ([("pipe", tarfile.FIFOTYPE, "")], "a device or a pipe"),
    ],
    ids=[
        "climbs",
        "absolute-link",
        "link-up",
        "hard-up",
        "hard-absolute",
        "hard-top",
        "through-link",
        "device",
        "pipe",
    ],
)
def test_an_archive_leads_nowhere_else(
    staged: Staged, job: Path, members: list[tuple[str, bytes, str]], says: str
) -> None:
    (job.parent / "secret").write_text("the node's")
    with pytest.raises(StagingError, match=says) as caught:
        staged.bring(content("k", tar_of(*members), unpack=True))
    assert caught.value.reason is Reason.INPUT_UNREADABLE
    assert not (job.parent / "x").exists()


def test_an_address_that_is_gone(staged: Staged) -> None:
    with pytest.raises(StagingError, match="answered 404"):
        staged.bring(Input("x", Source.HTTPS, url=f"{staged.peer.url}/files/none"))


def test_an_input_larger_than_the_disk(staged: Staged) -> None:
    staged.peer.files["big"] = b"x" * (2 << 20)
    with pytest.raises(StagingError, match="larger than the job's disk_size") as caught:
        staged.bring(Input("x", Source.HTTPS, url=f"{staged.peer.url}/files/big"), resources=wire.Resources(500, 64, 1))
    assert caught.value.reason is Reason.DISK_FULL


def test_a_fence_while_staging_is_no_staging_error(staged: Staged) -> None:
    def fence(method: str, path: str) -> None:
        if "/inputs/" in path:
            raise Problem(410, "FENCED")

    staged.peer.hook = fence
    with pytest.raises(Refused) as caught:
        staged.bring(Input("x", Source.PORTAL), contents={0: b"1"})
    assert caught.value.fenced


def test_two_inputs_in_one_place(staged: Staged) -> None:
    with pytest.raises(StagingError, match="is there already"):
        staged.bring(content("x", b"1"), content("/job/x", b"2"))


def test_a_server_that_fails_twice_is_asked_again(staged: Staged, job: Path) -> None:
    tries: list[str] = []

    def fail(method: str, path: str) -> None:
        if "/inputs/" in path:
            tries.append(path)
            if len(tries) < 3:
                raise Problem(503, "down")

    staged.peer.hook = fail
    staged.bring(Input("x", Source.PORTAL), contents={0: b"at last"})
    assert (job / "x").read_bytes() == b"at last"
    assert len(tries) == 3


def test_outputs(staged: Staged, job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "OUTPUT_CHUNK", 10)
    (job / "out").mkdir()
    (job / "out/m.bin").write_bytes(b"0123456789" * 3 + b"rest")
    (job / "empty").write_bytes(b"")
    taken = staged.take(Output("m", "/job/out/m.bin"), Output("e", "empty"), Output("none", "none", required=False))
    assert staged.received == {"m": b"0123456789" * 3 + b"rest", "e": b""}
    assert [(one.name, one.size) for one in taken] == [("m", 34), ("e", 0)]
    assert taken[0].sha256 == hashlib.sha256(staged.received["m"]).hexdigest()


def test_a_directory_travels_as_an_archive(staged: Staged, job: Path) -> None:
    (job / "d/sub").mkdir(parents=True)
    (job / "d/sub/f").write_bytes(b"1")
    (job / "d/link").symlink_to("/etc/hostname")
    os.mkfifo(job / "d/pipe")
    staged.take(Output("d", "d", kind=FileKind.DIRECTORY))
    with tarfile.open(fileobj=io.BytesIO(staged.received["d"])) as tar:
        members = {member.name: member for member in tar.getmembers()}
        assert set(members) == {"sub", "sub/f", "link"}
        assert members["link"].issym()
        assert tar.extractfile("sub/f").read() == b"1"  # type: ignore[union-attr]


def test_an_upload_goes_on_where_the_portal_says(staged: Staged, job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "OUTPUT_CHUNK", 4)
    (job / "m").write_bytes(b"0123456789")
    fails = iter([True, False, True])

    def lose(method: str, path: str) -> None:
        if "/outputs/" in path and next(fails, False):
            raise Problem(503, "down")

    staged.peer.hook = lose
    staged.take(Output("m", "m"))
    assert staged.received["m"] == b"0123456789"


def test_a_portal_that_has_more_than_we_think(staged: Staged, job: Path) -> None:
    (job / "m").write_bytes(b"0123456789")
    spec = staged.spec(outputs=(Output("m", "m"),))
    staged.peer.leases[spec.attempt].outputs["m"] = b"0123"
    staged._with_portal(lambda portal: take_outputs(spec, job, portal))
    assert staged.peer.leases[spec.attempt].outputs["m"] == b"0123456789"


@pytest.mark.parametrize(
    ("status", "reason"), [(413, Reason.OUTPUT_REFUSED), (422, Reason.OUTPUT_REFUSED), (403, Reason.UPLOAD_FAILED)]
)
def test_refused_uploads(staged: Staged, job: Path, status: int, reason: Reason) -> None:
    def refuse(method: str, path: str) -> None:
        if "/outputs/" in path:
            raise Problem(status, "no", "too large")

    staged.peer.hook = refuse
    (job / "m").write_bytes(b"1")
    with pytest.raises(StagingError, match="too large") as caught:
        staged.take(Output("m", "m"))
    assert caught.value.reason is reason


def test_a_portal_that_never_answers_is_not_the_tenants_fault(
    staged: Staged, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "TRIES", 1)

    def down(method: str, path: str) -> None:
        if "/outputs/" in path:
            raise Problem(503, "down")

    staged.peer.hook = down
    (job / "m").write_bytes(b"1")
    with pytest.raises(StagingError) as caught:
        staged.take(Output("m", "m"))
    assert caught.value.reason is Reason.UPLOAD_FAILED


def test_links_and_devices_are_missing_outputs(job: Path, tmp_path: Path) -> None:
    """Root reads what the tenant laid: nothing is followed, at no level."""
    (tmp_path / "secret").write_text("of the node")
    (job / "file").symlink_to(tmp_path / "secret")
    (job / "folder").symlink_to(tmp_path)
    os.mkfifo(job / "pipe")
    (job / "dir").mkdir()
    for path in ("file", "folder/secret", "pipe", "dir", "none", "none/x", "../secret"):
        assert open_output(job, replace(Output("o", "x"), path=path)) is None, path
    for path in ("folder", "file", "pipe"):
        assert open_output(job, Output("o", path, kind=FileKind.DIRECTORY)) is None, path
    with pytest.raises(StagingError, match="was not written") as caught:
        asyncio.run(take_outputs(replace(SPEC, outputs=(Output("o", "file"),)), job, None))  # type: ignore[arg-type]
    assert caught.value.reason is Reason.OUTPUT_MISSING


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1:9/x",
        "https://localhost/x",
        "https://169.254.169.254/latest/meta-data",
        "https://10.0.0.1/x",
        "https://192.168.1.1/x",
        "https://[::1]/x",
        "https://[fd00::1]/x",
        "https://0.0.0.0/x",
        "https://224.0.0.1/x",
        "http://example.org/x",
    ],
)
def test_the_providers_own_network_is_never_read(staged: Staged, url: str) -> None:
    staged.private = False
    with pytest.raises(StagingError, match=r"not on the public network|only https") as caught:
        staged.bring(Input("x", Source.HTTPS, url=url))
    assert caught.value.reason is Reason.INPUT_UNREADABLE


def test_redirects_are_followed_a_few_times(staged: Staged, job: Path) -> None:
    staged.peer.files["x"] = b"found"
    staged.peer.moves["/files/old"] = "/files/x"
    staged.peer.moves["/files/round"] = "/files/round"
    staged.bring(Input("x", Source.HTTPS, url=f"{staged.peer.url}/files/old"))
    assert (job / "x").read_bytes() == b"found"
    with pytest.raises(StagingError, match="too many redirects"):
        staged.bring(Input("y", Source.HTTPS, url=f"{staged.peer.url}/files/round"))


def test_an_archive_that_is_larger_than_the_disk_writes_little(staged: Staged, job: Path) -> None:
    bomb = io.BytesIO()
    with tarfile.open(fileobj=bomb, mode="w:gz") as tar:
        info = tarfile.TarInfo("zeros")
        info.size = 64 << 20
        tar.addfile(info, io.BytesIO(bytes(info.size)))
    assert len(bomb.getvalue()) < 1 << 20
    with pytest.raises(StagingError, match="unpacked it is larger") as caught:
        staged.bring(content("w", bomb.getvalue(), unpack=True), resources=wire.Resources(500, 64, 8))
    assert caught.value.reason is Reason.DISK_FULL
    assert sum(path.stat().st_size for path in job.rglob("*") if path.is_file()) == 0


def test_a_file_is_not_written_through_a_link_of_an_archive(staged: Staged, job: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (job / "door").symlink_to(tmp_path / "outside")
    with pytest.raises(StagingError, match="cannot be written"):
        staged.bring(content("/job/door/x", b"1"))
    assert list((tmp_path / "outside").iterdir()) == []


def test_an_archive_is_opened_by_the_slots_user(staged: Staged, room: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: a plain user opens archives as itself")
    staged.folder = room / "job"
    staged.folder.mkdir(mode=0o700)
    staged.uid = 20077
    staged.bring(content("w", archive(one=b"1"), unpack=True), content("plain", b"2"))
    for name in ("", "w", "w/one", "plain"):
        assert (staged.folder / name).stat().st_uid == 20077, name


def test_an_output_folder_full_of_holes(staged: Staged, job: Path) -> None:
    (job / "d").mkdir()
    for name in "abc":
        with (job / "d" / name).open("wb") as file:
            file.truncate(40 << 20)
    with pytest.raises(StagingError, match="larger than the job's disk_size") as caught:
        staged.take(Output("d", "d", kind=FileKind.DIRECTORY))
    assert caught.value.reason is Reason.OUTPUT_REFUSED
