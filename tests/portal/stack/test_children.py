"""A supervised child: started again with growing patience, silent when told so, gone when it should be."""

import sys
import time
from pathlib import Path

import pytest

from portal.stack import owner
from portal.stack.children import Child, describe_exit
from portal.stack.control import NotRunning, Server, ask
from tests.portal.stack.running import wait_until

said: list[str] = []


def child(tmp_path: Path, script: str, **options: bool) -> Child:
    said.clear()
    made = Child(
        "thing",
        [sys.executable, "-u", "-c", script],
        environment={},
        log_dir=tmp_path,
        say=lambda name, line: said.append(f"{name}: {line}"),
        folder=tmp_path,
        **options,
    )
    made.want()
    return made


def tended(one: Child) -> bool:
    one.tend()
    return True


def test_its_words_go_to_the_terminal_and_to_its_log(tmp_path: Path) -> None:
    one = child(tmp_path, "print('hello')", once=True)
    wait_until(lambda: tended(one) and one.ended.is_set(), 10, "its end")
    wait_until(lambda: "thing: hello" in said, 10, "its words")
    wait_until(lambda: "hello" in (tmp_path / "thing.log").read_text(), 10, "its log")
    assert one.exit_code == 0


def test_one_that_falls_is_started_again_later_and_later(tmp_path: Path) -> None:
    one = child(tmp_path, "raise SystemExit(3)")
    waits = []
    for _ in range(3):
        one.due_at = 0.0
        one.tend()
        wait_until(lambda: tended(one) and one.process is None, 10, "its fall")
        waits.append(round(one.due_at - time.monotonic()))
    assert waits == [1, 3, 7]
    assert "thing ended with exit code 3; again in 1 s" in said[0]


def test_a_long_run_forgets_earlier_falls(tmp_path: Path) -> None:
    one = child(tmp_path, "raise SystemExit(3)")
    one.fails = 4
    one.tend()
    one.started_at -= 31
    wait_until(lambda: tended(one) and one.process is None, 10, "its fall")
    assert one.fails == 1


def test_one_held_down_stays_down(tmp_path: Path) -> None:
    one = child(tmp_path, "import time; time.sleep(60)")
    one.tend()
    assert one.is_running()
    one.ask_to_stop()
    wait_until(lambda: not one.is_running(), 10, "its end")
    one.tend()
    one.tend()
    assert not one.is_running()
    one.want()
    one.tend()
    assert one.is_running()
    one.kill_group()
    wait_until(lambda: not one.is_running(), 10, "its end")


@pytest.mark.parametrize(("code", "words"), [(0, "exit code 0"), (-9, "SIGKILL"), (-250, "signal 250")])
def test_an_exit_is_described(code: int, words: str) -> None:
    assert describe_exit(code) == words


def test_a_folder_has_one_owner(tmp_path: Path) -> None:
    first = owner.Owner(tmp_path, about={"url": "http://here"})
    with pytest.raises(owner.AlreadyOwned) as caught:
        owner.Owner(tmp_path, about={})
    assert caught.value.args[0]["url"] == "http://here"
    first.release()
    owner.Owner(tmp_path, about={}).release()


def test_requests_are_answered_and_errors_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def perform(request: dict[str, object]) -> dict[str, object]:
        if request["do"] == "fail":
            raise ValueError("no such node")
        return {"did": request["do"]}

    path = tmp_path / "c" / "control"
    monkeypatch.setenv("IDLEWILD_CONTROL", str(path))
    with pytest.raises(NotRunning):
        ask("status")
    server = Server(path, perform)
    try:
        assert ask("status") == {"did": "status"}
        with pytest.raises(ValueError, match="no such node"):
            ask("fail")
    finally:
        server.close()
    assert not path.exists()
