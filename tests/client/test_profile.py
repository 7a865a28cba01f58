"""The file with the key."""

import json
import stat
from pathlib import Path

import pytest

from client import profile
from client.errors import LocalFault


def test_the_file_is_for_its_owner_only_and_keeps_other_profiles(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    file = profile.save(profile.Profile("default", "http://a", "idw_a_b"), environ)
    profile.save(profile.Profile("work", "http://b", "idw_c_d", "vision"), environ)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert profile.load("work", environ) == profile.Profile("work", "http://b", "idw_c_d", "vision")
    assert profile.load("", environ).key == "idw_a_b"
    assert [path.name for path in file.parent.iterdir()] == ["config.json"]


def test_the_environment_wins(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    profile.save(profile.Profile("default", "http://a", "idw_a_b"), environ)
    found = profile.load("", {**environ, "IDLEWILD_URL": "http://c/", "IDLEWILD_KEY": "idw_x_y"})
    assert (found.url, found.key) == ("http://c", "idw_x_y")


@pytest.mark.parametrize("text", ["{", "[]", json.dumps({"profiles": 3})])
def test_a_broken_file_or_none_asks_to_sign_in(tmp_path: Path, text: str) -> None:
    environ = {"HOME": str(tmp_path)}
    with pytest.raises(LocalFault):
        profile.load("", environ)
    profile.path(environ).parent.mkdir(parents=True)
    profile.path(environ).write_text(text)
    with pytest.raises(LocalFault, match="login"):
        profile.load("", environ)
    with pytest.raises(LocalFault, match="nobody"):
        profile.load("nobody", {"XDG_CONFIG_HOME": str(tmp_path / "none")})
