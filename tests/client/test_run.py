"""`idlewild run` and its neighbours against the small portal: what is said, what is sent, which exit code comes."""

import os
import signal
import socket
import stat
import time
from pathlib import Path

import pytest

from client import profile
from tests.client.conftest import Command, process
from tests.client.peer import KEY, Peer, problem


@pytest.fixture
def job_file(tmp_path: Path) -> str:
    file = tmp_path / "job.yaml"
    file.write_text("name: hello\nrun: echo hello\nmax_price: 1.20\n")
    return str(file)


def test_one_command_quotes_submits_follows_and_fetches(
    peer: Peer, idlewild: Command, job_file: str, tmp_path: Path
) -> None:
    said = idlewild("run", job_file, "--fetch", str(tmp_path / "out"), "-y")
    assert said.exit == 0, said
    for word in (
        "oak",
        "elm",
        "cheapest",
        "0.10 CNY (0.05 – 0.20)",
        "80 %",
        "2.0 MB",
        "Knee.",
        "Submitted job_1",
        "hello",
        "world",
        "job_1 done",
    ):
        assert word in said.out
    assert (tmp_path / "out" / "report.txt").read_bytes() == b"bytes of it"
    _, body = peer.requests("POST", "/api/v1/jobs")[0]
    assert body == {"spec": {"name": "hello", "run": "echo hello", "max_price": "1.20"}, "quote": "quo_1", "point": 0}


def test_json_tells_all_of_it_line_by_line_and_the_exit_code_last(idlewild: Command, job_file: str) -> None:
    said = idlewild("run", job_file, "--json")
    kinds = [line.get("type") for line in said.lines]
    assert [kind for kind in kinds if kind != "event"] == ["quote", "job", "log", "log", "ended", None]
    assert [line["event"]["type"] for line in said.of("event")][:2] == ["job.queued", "job.running"]
    assert said.last == {"exit": 0, "source": "job"}
    assert [line["text"] for line in said.of("log")] == ["hello", "world"]


def test_words_after_two_dashes_are_the_job(peer: Peer, idlewild: Command) -> None:
    idlewild(
        "--json",
        "run",
        "--cpus",
        "0.5",
        "--accelerators",
        "virtual:1",
        "--max-price",
        "2",
        "--region",
        "east",
        "--",
        "echo",
        "a b",
        "--json",
    )
    spec = peer.requests("POST", "/api/v1/jobs")[0][1]["spec"]
    assert spec == {
        "run": "echo 'a b' --json",
        "resources": {"cpus": "0.5", "accelerators": "virtual:1"},
        "max_price": "2",
        "placement": {"regions": ["east"]},
    }
    idlewild("--json", "run", "--", "for i in 1 2; do echo $i; done")
    assert peer.requests("POST", "/api/v1/jobs")[1][1]["spec"] == {"run": "for i in 1 2; do echo $i; done"}


def test_the_jobs_own_exit_code_comes_through(peer: Peer, idlewild: Command) -> None:
    peer.finish = {"state": "failed", "reason": "exit_nonzero", "exit_code": 42}
    said = idlewild("run", "--json", "--", "exit 42")
    assert (said.exit, said.last) == (42, {"exit": 42, "source": "job"})


def test_nothing_fits_is_203_with_the_reasons(peer: Peer, idlewild: Command) -> None:
    peer.points = []
    said = idlewild("run", "--", "echo")
    assert said.exit == 203
    assert "price_over_max" in said.out
    assert peer.jobs == {}


def test_a_dry_run_and_a_quote_submit_nothing(peer: Peer, idlewild: Command, job_file: str) -> None:
    assert idlewild("run", job_file, "--dry-run").exit == 0
    assert idlewild("quote", job_file).exit == 0
    assert peer.jobs == {}


def test_a_point_can_be_chosen_and_must_exist(peer: Peer, idlewild: Command, job_file: str) -> None:
    assert idlewild("run", job_file, "--point", "7").exit == 200
    assert peer.jobs == {}
    assert idlewild("run", job_file, "--point", "1", "--detach").exit == 0
    assert peer.requests("POST", "/api/v1/jobs")[0][1]["point"] == 1
    assert peer.jobs["job_1"]["state"] == "running"


def test_pick_ask_without_a_person_needs_a_point(peer: Peer, idlewild: Command, tmp_path: Path) -> None:
    (tmp_path / "ask.yaml").write_text("run: echo\nplacement: {pick: ask}\n")
    said = idlewild("run", str(tmp_path / "ask.yaml"), "--json")
    assert said.exit == 200
    assert said.lines[-2]["error"]["code"] == "choice_required"


@pytest.mark.parametrize(
    "argv",
    [
        ("run",),
        ("run", "job.yaml", "--", "echo"),
        ("run", "job.yaml", "--cpus", "2"),
        ("frobnicate",),
        ("run", "--frobnicate", "--", "x"),
        ("run", "--point", "many", "--", "x"),
        ("cancel",),
        ("logs", "job_1", "--stream", "stdmiddle"),
        ("invoice", "download", "inv_1", "--format", "doc"),
        ("node", "invite", "--region", "east", "--price", "gold=1"),
        ("node", "invite", "--region", "east", "--window", "22:00"),
        ("project", "set", "vision"),
        ("--lang", "fr", "ps"),
        ("login", "--url", "ftp://x"),
        ("offers", "search", "--limit", "0"),
    ],
)
def test_flags_that_make_no_sense_are_2_and_ask_nothing(peer: Peer, idlewild: Command, argv: tuple[str, ...]) -> None:
    said = idlewild("--json", *argv)
    assert said.exit == 2, said
    assert said.last == {"exit": 2, "source": "cli"}
    assert [row for row in peer.asked if row[0] != "GET"] == []


def test_a_bad_spec_lists_every_finding(peer: Peer, idlewild: Command, job_file: str) -> None:
    errors = [
        {
            "path": "resources.cpu",
            "code": "unknown_field",
            "message": "there is no field cpu",
            "hint": "did you mean cpus?",
            "line": 3,
            "column": 2,
        },
        {"path": "run", "code": "field_required", "message": "run says what the job does", "hint": ""},
    ]
    peer.say("POST", "/api/v1/quotes", 422, problem(422, "bad_spec", "Two things.", errors=errors))
    said = idlewild("run", job_file)
    assert said.exit == 200
    for word in ("Two things.", "resources.cpu:3", "did you mean cpus?", "field_required"):
        assert word in said.err
    assert peer.jobs == {}


@pytest.mark.parametrize(
    ("status", "code", "leaves"),
    [
        (401, "not_signed_in", 201),
        (402, "spending_refused", 202),
        (403, "forbidden", 201),
        (409, "quote_expired", 208),
        (404, "not_found", 209),
    ],
)
def test_a_refused_submit_has_its_code(peer: Peer, idlewild: Command, status: int, code: str, leaves: int) -> None:
    peer.say("POST", "/api/v1/jobs", status, problem(status, code, "Do this."))
    said = idlewild("run", "--json", "--", "x")
    assert (said.exit, said.last["source"], said.lines[-2]["error"]["code"]) == (leaves, "cli", code)


def test_a_portal_that_is_away_is_207(idlewild: Command) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    said = idlewild("ps", IDLEWILD_URL=address, IDLEWILD_PATIENCE="0.3")
    assert said.exit == 207
    assert "goes on" in said.err


def test_chinese_all_the_way(idlewild: Command, job_file: str, peer: Peer) -> None:
    said = idlewild("run", job_file, "--lang", "zh")
    assert said.exit == 0
    for word in ("帕累托前沿", "已提交", "已完成"):
        assert word in said.out
    assert peer.asked[0][2]["accept-language"] == "zh"
    assert "显示本说明后退出" in idlewild("--help", IDLEWILD_LANG="zh_CN.UTF-8").out


def test_curl_shows_each_request_without_the_key(idlewild: Command) -> None:
    said = idlewild("ps", "--curl")
    assert "curl -sS -X GET" in said.err.replace("\n", "")
    assert KEY not in said.err


def test_login_stores_what_works_and_only_that(peer: Peer, idlewild: Command, environ: dict[str, str]) -> None:
    bare = {"IDLEWILD_URL": "", "IDLEWILD_KEY": ""}
    assert idlewild("ps", **bare).exit == 201
    assert idlewild("login", "--url", peer.url, "--key", "idw_wrong_key", **bare).exit == 201
    assert not profile.path(environ).exists()
    said = idlewild("login", "--url", peer.url, "--key", KEY, "--project", "vision", **bare)
    assert said.exit == 0
    assert "ada@example.org (moss)" in said.out
    assert stat.S_IMODE(profile.path(environ).stat().st_mode) == 0o600
    idlewild("run", "--detach", "-y", "--", "x", **bare)
    assert peer.requests("POST", "/api/v1/jobs")[0][1]["spec"]["project"] == "vision"


def test_ps_show_events_logs_cancel_cp(peer: Peer, idlewild: Command, tmp_path: Path) -> None:
    peer.finish = None
    idlewild("run", "--detach", "-y", "--", "x")
    assert "job_1" in idlewild("ps").out
    assert "att_1" in idlewild("show", "job_1").out
    assert "job.queued" in idlewild("events", "job_1").out
    assert idlewild("logs", "job_1", "--no-follow").out.split() == ["hello", "world"]
    assert idlewild("cancel", "job_1", "--wait").exit == 0
    assert "job_1" not in idlewild("ps").out
    assert "job_1" in idlewild("ps", "--all").out
    assert idlewild("cp", "job_1", str(tmp_path) + "/").exit == 0
    assert (tmp_path / "report.txt").exists()
    assert idlewild("cp", "job_1/report", str(tmp_path / "r")).exit == 0
    assert idlewild("cp", "job_1/none", str(tmp_path / "n")).exit == 209
    assert idlewild("show", "job_9").exit == 209


# --- Ctrl-C, with real processes and real signals


def wait_for(condition: object, seconds: float = 10.0) -> None:
    until = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)


def test_ctrl_c_before_the_submit_leaves_nothing(peer: Peer, environ: dict[str, str]) -> None:
    peer.answers[("POST", "/api/v1/quotes")] = [lambda p, sent: (time.sleep(5), (503, None, {}))[1]]  # type: ignore[func-returns-value]
    with process(environ, "run", "--json", "--", "x") as command:
        wait_for(lambda: peer.requests("POST", "/api/v1/quotes"))
        command.send_signal(signal.SIGINT)
        out, _ = command.communicate(timeout=10)
    assert command.returncode == 209
    assert '"interrupted"' in out
    assert peer.jobs == {}


def test_ctrl_c_while_submitting_waits_for_the_answer_and_tells_the_id(peer: Peer, environ: dict[str, str]) -> None:
    peer.finish = None
    peer.submit_takes_s = 1.0
    with process(environ, "run", "-y", "--", "x") as command:
        wait_for(lambda: peer.requests("POST", "/api/v1/jobs"))
        command.send_signal(signal.SIGINT)
        out, err = command.communicate(timeout=15)
    assert command.returncode == 209
    assert "Submitted job_1" in out
    assert "idlewild cancel job_1" in err.replace("\n", " ")
    assert peer.jobs["job_1"]["state"] == "running"


def test_one_ctrl_c_detaches_and_two_cancel(peer: Peer, environ: dict[str, str]) -> None:
    peer.finish = None
    for times, leaves, state in ((1, 209, "running"), (2, 204, "cancelled")):
        with process(environ, "run", "-y", "--", "x") as command:
            assert command.stdout is not None
            for line in command.stdout:
                if "world" in line or "hello" in line:
                    break
            command.send_signal(signal.SIGINT)
            if times == 2:
                time.sleep(0.7)
                command.send_signal(signal.SIGINT)
            said = command.communicate(timeout=15)
        assert command.returncode == leaves, said
        assert list(peer.jobs.values())[-1]["state"] == state


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_killed_at_any_moment_the_job_is_absent_or_can_be_cancelled(
    peer: Peer, environ: dict[str, str], idlewild: Command, number: int
) -> None:
    peer.finish = None
    peer.submit_takes_s = 0.2
    for n in range(4):
        with process(environ, "run", "-y", "--", "x") as command:
            time.sleep(0.3 + n * 0.25)
            os.kill(command.pid, number)
            command.communicate(timeout=15)
        time.sleep(0.3)
        for job in [job for job in peer.jobs.values() if job["state"] == "running"]:
            assert job["id"] in idlewild("ps").out
            assert idlewild("cancel", job["id"]).exit == 0
    assert all(job["state"] == "cancelled" for job in peer.jobs.values())
