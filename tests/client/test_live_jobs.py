"""Jobs against the real portal and a real PostgreSQL: quote, submit, list, explain, cancel; every refusal has its exit code."""

import gzip
import os
import random
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from portal import clock
from scheduling.domain.attempt import Phase
from scheduling.models import Attempt, Job, NodeState, Quote
from scheduling.services import artefacts, cycle, logs
from tests.client.conftest import Speaker, process
from tests.factories.market import a_node
from tests.factories.running import Work, a_running, an_output

Speak = Callable[..., Speaker]
JOB = "name: hello\nrun: echo hello\nmax_price: 1.20\nresources: {cpus: 0.5, memory: 1, disk_size: 1}\n"


@pytest.fixture
def market(sol: Any) -> list[Any]:
    """Three nodes that trade price for green."""
    now = clock.now()
    prices = {"oak": "0.10", "elm": "0.20", "fir": "0.30"}
    greens = {"oak": "0.10", "elm": "0.50", "fir": "0.90"}
    made = [
        a_node(sol, name=name, prices={"core": price}, terms={"green_ratio": greens[name]}, now=now)
        for name, price in prices.items()
    ]
    NodeState.objects.update(last_sync_at=now + timedelta(minutes=10))  # heard, for as long as a test takes
    return made


@pytest.fixture
def job_file(tmp_path: Path) -> str:
    (tmp_path / "job.yaml").write_text(JOB)
    return str(tmp_path / "job.yaml")


def test_a_quote_shows_the_front_and_the_reason(live: Speak, ada: Any, market: Any, job_file: str) -> None:
    said = live(ada)("quote", job_file)
    assert said.exit == 0, said
    for word in ("oak", "elm", "fir", "cheapest", "greenest", "CNY", "Chosen"):
        assert word in said.out
    assert Job.objects.count() == 0


def test_a_submitted_job_is_listed_shown_explained_and_cancelled(
    live: Speak, ada: Any, market: Any, job_file: str
) -> None:
    command = live(ada)
    said = command("run", job_file, "--detach", "--point", "0", "--json")
    assert said.exit == 0, said
    name = said.of("job")[0]["job"]["id"]
    assert name in command("ps").out
    assert name in command("ps", "--state", "queued", "--json").out
    cycle.run(now=clock.now())
    assert "running" in command("show", name).out
    assert "attempt.assigned" in command("events", name).out
    assert command("explain", name).exit == 0
    assert command("logs", name, "--no-follow").exit == 0
    assert command("cancel", name).exit == 0
    assert Job.objects.get().cancel_requested_at is not None
    assert command("cancel", name).exit == 0


def test_a_queued_job_is_cancelled_at_once_and_leaves_the_list(
    live: Speak, ada: Any, market: Any, job_file: str
) -> None:
    command = live(ada)
    name = command("run", job_file, "--detach", "--json").of("job")[0]["job"]["id"]
    assert command("cancel", name, "--wait").exit == 0
    assert name not in command("ps").out
    assert name in command("ps", "--all").out
    assert command("retry", name).exit == 209
    assert [(state.free_cores_milli, state.total_cores_milli) for state in NodeState.objects.all()] == [
        (8000, 8000)
    ] * 3


def test_following_a_cancelled_job_is_204(live: Speak, ada: Any, market: Any, job_file: str) -> None:
    command = live(ada)
    with process(command.environ, "run", job_file, "--json") as running:
        until = time.monotonic() + 20
        while not Job.objects.exists():
            assert time.monotonic() < until
            time.sleep(0.1)
        command("cancel", Job.objects.get().public_id)
        out, err = running.communicate(timeout=20)
    assert running.returncode == 204, (out, err)
    assert '"source": "cli"' in out.splitlines()[-1]


def test_nothing_fits_is_203_and_names_the_reasons(live: Speak, ada: Any, market: Any) -> None:
    said = live(ada)("run", "--cpus", "512", "--", "true")
    assert said.exit == 203, said
    assert Job.objects.count() == 0


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("run: x\nresources: {cpu: 8}", "unknown_field"),
        ("run: x\nresources: {cpus: 8..4}", "bad_range"),
        ("name: x", "field_required"),
        ("run: x\nmax_price: -1", "bad_amount"),
        ("run: x\narray: {count: 4}", "unsupported_field"),
        ("run: x\nproject: nowhere", "unknown_project"),
        ("run: x\nplacement: {min_green: 60}", "out_of_range"),
    ],
)
def test_a_bad_spec_is_200_with_its_finding(live: Speak, ada: Any, tmp_path: Path, text: str, code: str) -> None:
    (tmp_path / "job.yaml").write_text(text)
    said = live(ada)("run", str(tmp_path / "job.yaml"), "--json")
    assert said.exit == 200, said
    assert code in [row["code"] for row in said.lines[-2]["error"]["errors"]]
    assert Job.objects.count() == Quote.objects.count() == 0


def test_a_quote_that_is_over_is_208(live: Speak, ada: Any, market: Any, job_file: str) -> None:
    command = live(ada)
    name = command("quote", job_file, "--json").of("quote")[0]["quote"]["id"]
    Quote.objects.update(expires_at=clock.now() - timedelta(seconds=1))
    assert command("run", job_file, "--quote", name, "--detach").exit == 208
    assert Job.objects.count() == 0


def test_a_quote_serves_once(live: Speak, ada: Any, market: Any, job_file: str) -> None:
    command = live(ada)
    name = command("quote", job_file, "--json").of("quote")[0]["quote"]["id"]
    assert command("run", job_file, "--quote", name, "--detach").exit == 0
    assert command("run", job_file, "--quote", name, "--detach").exit == 208
    assert Job.objects.count() == 1


def test_above_the_limit_of_credit_is_202(live: Speak, ada: Any, market: Any, job_file: str) -> None:
    ada.organisation.credit_limit_minor = 0
    ada.organisation.save(update_fields=["credit_limit_minor"])
    said = live(ada)("run", job_file, "--detach", "--json")
    assert said.exit == 202, said
    assert Job.objects.count() == 0


def test_a_viewers_key_may_not_run(live: Speak, ada: Any, market: Any, job_file: str) -> None:
    assert live(ada, scopes=["work.read"])("run", job_file, "--detach").exit == 201
    assert Job.objects.count() == 0


def test_a_strangers_job_is_not_there(live: Speak, ada: Any, cleo: Any, market: Any, job_file: str) -> None:
    command, stranger = live(ada), live(cleo)
    name = command("run", job_file, "--detach", "--json").of("job")[0]["job"]["id"]
    for words in (
        ("show", name),
        ("events", name),
        ("explain", name),
        ("cancel", name),
        ("retry", name),
        ("cp", name, "/tmp"),
        ("logs", name, "--no-follow"),
    ):
        assert stranger(*words).exit == 209, words
    assert stranger("ps", "--all", "--json").lines[0] == {"items": []}
    assert Job.objects.get().cancel_requested_at is None


@pytest.mark.timeout(600)  # ten commands as processes, each interrupted one waiting its 3 s for a second Ctrl-C
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_p2_killed_at_any_moment_the_job_is_absent_or_can_be_cancelled(
    live: Speak, ada: Any, market: Any, job_file: str, number: int
) -> None:
    """P2: 20 moments, ten for each signal, seeded: no orphan that nobody can find, no capacity held."""
    command, chance = live(ada), random.Random(number)
    for n in range(10):
        with process(command.environ, "run", job_file, "-y") as running:
            time.sleep(0.2 + 0.2 * n + chance.random() * 0.2)
            os.kill(running.pid, number)
            running.communicate(timeout=20)
        time.sleep(0.2)
        for job in Job.objects.filter(state__in=["queued", "running"]):
            assert job.public_id in command("ps").out
            assert command("cancel", job.public_id).exit == 0
    assert not Job.objects.filter(state__in=["queued", "running"]).exists()
    assert all(state.free_cores_milli == state.total_cores_milli for state in NodeState.objects.all())


def printed(work: Any, text: str) -> None:
    """What the job's process wrote."""
    raw = text.encode()
    logs.append(
        attempt=work.fresh(),
        stream="stdout",
        offset=0,
        packed=gzip.compress(raw),
        digest=sha256(raw).hexdigest(),
        now=clock.now(),
    )


def stored(work: Any, name: str, content: bytes) -> None:
    digest = sha256(content).hexdigest()
    artefacts.upload(
        attempt=work.fresh(),
        name=name,
        offset=0,
        data=content,
        digest=digest,
        total=len(content),
        whole_digest=digest,
        now=clock.now(),
    )


def test_logs_outputs_and_cost_of_a_job_that_ran(live: Speak, ada: Any, sol: Any, tmp_path: Path) -> None:
    command, now = live(ada), clock.now() - timedelta(seconds=60)
    work = a_running(ada, a_node(sol, now=now), now=now, outputs=(an_output("report", "/job/out/report.csv"),))
    printed(work, "one\n两\nthree")
    report = b"a,b\n1,2\n"
    stored(work, "report", report)
    work.use(30_000_000, now + timedelta(seconds=30))
    work.finish(now + timedelta(seconds=40), outputs={"report": (len(report), sha256(report).hexdigest())})
    name = work.job.public_id
    said = command("logs", name)
    assert (said.exit, said.out.split()) == (0, ["one", "两", "three"])
    assert command("logs", name, "--attempt", "1", "--no-follow").out.split() == ["one", "两", "three"]
    assert command("logs", f"{name}/main", "--no-follow", "--json").of("log")[1]["text"] == "两"
    assert command("logs", name, "--stream", "stderr", "--no-follow").out == ""
    shown = command("show", name)
    for word in ("succeeded", "report", "core-hour"):
        assert word in shown.out
    assert command("cp", name, str(tmp_path) + "/").exit == 0
    assert (tmp_path / "report.csv").read_bytes() == report
    assert command("cp", f"{name}/report", str(tmp_path / "mine.csv")).exit == 0
    assert (tmp_path / "mine.csv").read_bytes() == report
    assert command("cp", f"{name}/nothing", str(tmp_path / "x")).exit == 209
    records = command("usage", "--job", name, "--json").lines[0]["items"]
    assert {row["resource"] for row in records} == {"core"}
    assert name in command("usage", "--group-by", "job", "--json").out


def test_the_jobs_own_exit_code_and_a_retry(live: Speak, ada: Any, sol: Any) -> None:
    command, now = live(ada), clock.now() - timedelta(seconds=60)
    work = a_running(ada, a_node(sol, now=now), now=now, retry_on=())
    printed(work, "no such tile\n")
    work.finish(now + timedelta(seconds=10), reason="exit_nonzero", exit_code=42)
    name = work.job.public_id
    assert "exit_nonzero" in command("show", name).out
    assert command("explain", name).exit == 0
    assert command("retry", name).exit == 0
    assert name in command("ps", "--state", "queued").out
    assert command("retry", name).exit == 209


def test_run_returns_what_the_job_returned(live: Speak, ada: Any, market: Any, job_file: str) -> None:
    command = live(ada)
    with process(command.environ, "run", job_file, "--json") as running:
        until = time.monotonic() + 20
        while not Job.objects.exists():
            assert time.monotonic() < until
            time.sleep(0.1)
        cycle.run(now=clock.now())
        attempt = Attempt.objects.get()
        work = Work(Job.objects.get(), attempt.node, attempt)
        work.accept(clock.now())
        work.report(Phase.RUN, clock.now())
        printed(work, "tile 1\n")
        work.finish(clock.now(), reason="exit_nonzero", exit_code=7)
        out, err = running.communicate(timeout=30)
    assert running.returncode == 7, (out, err)
    assert '"tile 1"' in out
    assert out.splitlines()[-1] == '{"exit": 7, "source": "job"}'
