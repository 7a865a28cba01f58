"""Commands of the tenant: from a quote to the outputs."""

import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from .. import outcome, spec
from ..api import Idlewild
from ..errors import ClientError, Exit, LocalFault, NoCapacity
from ..models import Event, Job, Quote, Row, money_text, rows_of, text
from ..watch import Ended, Follower, Item, Line
from ..words import N_, t
from . import front
from .interrupts import Interrupts
from .session import Session, listing, of, pairs, plain, reach

TWICE_S = 3.0
OPEN = ("queued", "running")

app = typer.Typer(add_completion=False)

Env = Annotated[Optional[list[str]], typer.Option("--env", help=N_("NAME=VALUE, given to the job; may be repeated."))]
FileArgument = Annotated[
    Optional[Path], typer.Argument(metavar="FILE", help=N_("A job file (YAML or JSON); or give a command after `--`."))
]
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help=N_("A job's id."))]
Cpus = Annotated[str, typer.Option(help=N_("Cores, such as 0.5 or 4+."))]
Memory = Annotated[str, typer.Option(help=N_("Memory, such as 2 (GiB) or 512MiB."))]
Accelerators = Annotated[str, typer.Option(help=N_("Cards, such as A100-80GB:1 or virtual:1."))]
Image = Annotated[str, typer.Option(help=N_("An image, such as docker:NAME; default: the node's own system."))]
MaxPrice = Annotated[str, typer.Option(help=N_("The most per hour, such as 1.20."))]
RegionOption = Annotated[str, typer.Option(help=N_("Only this region."))]
NameOption = Annotated[str, typer.Option(help=N_("The job's name."))]


class Detached(ClientError):
    """Ctrl-C: the command ends, the job goes on."""

    exit, code = Exit.OTHER, "detached"


def described(
    session: Session, file: Optional[Path], envs: Optional[list[str]], flags: dict[str, str]
) -> dict[str, Any]:
    """The spec of a file, or of the words after `--` and the flags."""
    if (file is None) == (not session.command):
        raise typer.BadParameter(t("Give a job file, or a command after `--`, and not both."))
    if file is not None:
        given = [name for name, value in flags.items() if value]
        if given:
            raise typer.BadParameter(
                t("These flags describe a job without a file: {flags}", flags=", ".join(f"--{name}" for name in given))
            )
        whole, base = spec.read_file(file), file.resolve().parent
    else:
        whole, base = of_command(session.command, flags), Path.cwd()
    return spec.prepared(whole, base=base, envs=envs or [], project=session.wanted_project)


def of_command(words: "tuple[str, ...]", flags: dict[str, str]) -> dict[str, Any]:
    """One word is a line for the shell; several are a program and its arguments."""
    whole: dict[str, Any] = {"run": words[0] if len(words) == 1 else shlex.join(words)}
    resources = {
        "cpus": flags["cpus"],
        "memory": flags["memory"],
        "accelerators": flags["accelerators"],
        "image_id": flags["image"],
    }
    resources = {name: value for name, value in resources.items() if value}
    if resources:
        whole["resources"] = resources
    if flags["max-price"]:
        whole["max_price"] = flags["max-price"]
    if flags["region"]:
        whole["placement"] = {"regions": [flags["region"]]}
    if flags["name"]:
        whole["name"] = flags["name"]
    return whole


def quoted(session: Session, whole: dict[str, Any], *, quote: str = "", explain: bool = False) -> Quote:
    """Ask for the front and show it; nothing fits is `NoCapacity`."""
    answer = session.portal.quotes.get(quote) if quote else session.portal.quotes.make(whole)
    session.emit({"type": "quote", "quote": answer.raw})
    for warning in answer.warnings:
        session.warn(f"{text(warning.get('path'))}: {text(warning.get('message') or warning.get('code'))}")
    if not answer.points:
        if answer.refused and not session.json:
            session.out.print(front.refusals(answer.refused))
        raise NoCapacity(t("Nothing on the market fits this job now; the reasons are listed above."), answer.refused)
    if not session.json:
        session.out.print(front.table(answer))
        if answer.pick is not None:
            session.say(t("Chosen: {point}. {why}", point=answer.pick, why=front.why(answer.reason)))
        for line in front.foreseen(answer):
            session.say(line, style="dim")
        if explain and answer.refused:
            session.out.print(front.refusals(answer.refused))
        session.say(t("Quote {id}, good until {time}.", id=answer.id, time=answer.expires_at), style="dim")
    return answer


def picked(session: Session, answer: Quote, whole: dict[str, Any], point: Optional[int]) -> int:
    """The point to take: the flag's, the person's, or the policy's."""
    known = {candidate.index for candidate in answer.points}
    wanted = (whole.get("placement") or {}).get("pick")
    default = answer.pick if answer.pick is not None else min(known)
    if point is None and wanted in (None, "ask") and session.person and len(known) > 1:
        point = typer.prompt(t("Which point?"), default=default, type=int)
    elif point is None and wanted == "ask" and len(known) > 1:
        raise LocalFault(
            t("The job file says `pick: ask`; without a terminal, give --point N."), code="choice_required"
        )
    elif point is None:
        if not session.ask(t("Submit the job at point {point}?", point=default)):
            raise ClientError(t("Nothing was submitted."), code="declined")
        point = default
    if point not in known:
        raise LocalFault(t("The quote has no point {point}.", point=point), code="unknown_point")
    return point


def submitted(session: Session, whole: dict[str, Any], answer: Quote, point: int, ctrl_c: Interrupts) -> Job:
    """The job. Ctrl-C waits for the portal's answer, so that nobody has to guess whether the job exists."""
    try:
        with ctrl_c.held():
            return session.portal.jobs.submit(whole, quote=answer.id, point=point, key=session.key)
    except KeyboardInterrupt:
        raise Detached(t("Stopped while the job was being submitted: see `idlewild ps` whether it exists.")) from None


def announced(session: Session, job: Job) -> None:
    session.emit({"type": "job", "job": job.raw})
    session.say(t("Submitted {id} ({name}).", id=job.id, name=job.name))


@app.command(help=N_("Quote, choose, submit, follow, fetch: a job from its file, or a command after `--`."))
def run(
    ctx: typer.Context,
    file: FileArgument = None,
    env: Env = None,
    quote: Annotated[str, typer.Option(help=N_("Use this quote instead of asking for one."))] = "",
    point: Annotated[Optional[int], typer.Option(help=N_("Take this point of the front."))] = None,
    detach: Annotated[bool, typer.Option("--detach", help=N_("Only submit; do not follow."))] = False,
    fetch: Annotated[Optional[Path], typer.Option(help=N_("Put the outputs into this folder at the end."))] = None,
    explain: Annotated[bool, typer.Option("--explain", help=N_("Also show why other places were left out."))] = False,
    cpus: Cpus = "",
    memory: Memory = "",
    accelerators: Accelerators = "",
    image: Image = "",
    max_price: MaxPrice = "",
    region: RegionOption = "",
    name: NameOption = "",
) -> None:
    session = of(ctx)
    flags = {
        "cpus": cpus,
        "memory": memory,
        "accelerators": accelerators,
        "image": image,
        "max-price": max_price,
        "region": region,
        "name": name,
    }
    with Interrupts() as ctrl_c:
        try:
            whole = described(session, file, env, flags)
            answer = quoted(session, whole, quote=quote, explain=explain)
            if session.dry_run:
                return
            chosen = picked(session, answer, whole, point)
            ctrl_c.check()
        except (KeyboardInterrupt, typer.Abort):
            raise Detached(t("Nothing was submitted."), code="interrupted") from None
        job = submitted(session, whole, answer, chosen, ctrl_c)
        if detach:
            announced(session, job)
            session.say(t("Follow it with `idlewild logs {id}`.", id=job.id))
            return
        ended = followed(session, job.id, ctrl_c, new=job)
    concluded(session, ended)
    if fetch is not None and ended.job.state.value == "done":
        fetched(session, job.id, fetch)


def followed(session: Session, job: str, ctrl_c: Interrupts, *, new: Optional[Job] = None) -> Ended:
    """Show what happens until the end. Ctrl-C detaches; twice within three seconds cancels."""
    try:
        if new is not None:
            announced(session, new)
        ctrl_c.check()
        return told(session, Follower(session.portal, job, sleep=ctrl_c.sleep).items())
    except KeyboardInterrupt:
        ctrl_c.answer()
        session.warn(
            t(
                "Detached; the job goes on. End it with `idlewild cancel {id}`, or press Ctrl-C again within 3 s.",
                id=job,
            )
        )
    try:
        ctrl_c.sleep(TWICE_S)
    except KeyboardInterrupt:
        session.portal.jobs.cancel(job)
        session.warn(t("Cancelled {id}.", id=job))
        raise Cancelled(t("The job was cancelled.")) from None
    raise Detached(t("Detached from {id}; it goes on.", id=job))


class Cancelled(ClientError):
    exit, code = Exit.CANCELLED, "cancelled"


def told(session: Session, items: Iterator[Item]) -> Ended:
    for item in items:
        if isinstance(item, Line):
            session.emit({"type": "log", "attempt": item.attempt, "stream": item.stream, "text": item.text})
            session.say(item.text)
        elif isinstance(item, Event):
            session.emit({"type": "event", "event": item.raw})
            session.say(event_line(item), style="cyan")
        else:
            return item
    raise ClientError(t("The job vanished from the portal."))


def event_line(event: Event) -> str:
    details = ", ".join(
        f"{name} {plain(value)}"
        for name, value in event.data.items()
        if name != "final" and isinstance(value, (str, int)) and value != ""
    )
    return f"· {event.type}{': ' + details if details else ''}"


def concluded(session: Session, ended: Ended) -> None:
    """Say how it ended and set the exit code."""
    result = outcome.of(ended.job, ended.tasks, ended.attempts)
    session.exit, session.source = int(result.exit), result.source
    session.emit(
        {
            "type": "ended",
            "job": ended.job.raw,
            "tasks": ended.tasks,
            "attempts": ended.attempts,
            "reason": result.reason,
        }
    )
    sentence = t("{id} {state}: {reason}", id=ended.job.id, state=t_state(ended.job.state.value), reason=result.reason)
    session.say(
        f"{sentence}{' – ' + result.message if result.message else ''}", style="green" if result.exit == 0 else "red"
    )
    for attempt in ended.attempts:
        session.say(attempt_line(attempt), style="dim")


def attempt_line(attempt: Row) -> str:
    node = attempt.get("node")
    where = plain(node) if node else text(attempt.get("node_name"))
    return t(
        "attempt {number} on {node}: {state} {reason}",
        number=plain(attempt.get("number") or attempt.get("fence")),
        node=where,
        state=text(attempt.get("state")),
        reason=text(attempt.get("reason")),
    ).rstrip()


STATES = {
    "queued": N_("queued"),
    "running": N_("running"),
    "done": N_("done"),
    "failed": N_("failed"),
    "cancelled": N_("cancelled"),
}


def t_state(state: str) -> str:
    return t(STATES[state]) if state in STATES else state


@app.command(help=N_("Show the front of placements with cost, time, green share and transfer; nothing is submitted."))
def quote(
    ctx: typer.Context,
    file: FileArgument = None,
    env: Env = None,
    cpus: Cpus = "",
    memory: Memory = "",
    accelerators: Accelerators = "",
    image: Image = "",
    max_price: MaxPrice = "",
    region: RegionOption = "",
    name: NameOption = "",
) -> None:
    session = of(ctx)
    flags = {
        "cpus": cpus,
        "memory": memory,
        "accelerators": accelerators,
        "image": image,
        "max-price": max_price,
        "region": region,
        "name": name,
    }
    quoted(session, described(session, file, env, flags), explain=True)


@app.command(help=N_("List jobs: those that are not over, or all."))
def ps(
    ctx: typer.Context,
    every: Annotated[bool, typer.Option("--all", help=N_("Ended ones too."))] = False,
    state: Annotated[str, typer.Option(help=N_("Only this state: queued running done failed cancelled."))] = "",
    label: Annotated[str, typer.Option(help=N_("Only jobs with this label, NAME=VALUE."))] = "",
    costs: Annotated[bool, typer.Option("--costs", help=N_("All that still costs money, stored outputs too."))] = False,
    limit: Annotated[int, typer.Option(min=1, help=N_("How many at most."))] = 50,
) -> None:
    session = of(ctx)
    states = state or ("" if every or costs else ",".join(OPEN))
    found = session.portal.jobs.find(limit=limit, state=states, label=label, project=session.project)
    if costs and not every:
        found = [job for job in found if job.get("state") in OPEN or session.portal.jobs.artefacts(text(job.get("id")))]
    columns = [
        ("id", t("job")),
        ("name", t("name")),
        ("project", t("project")),
        ("state", t("state")),
        ("attempt.state", t("attempt")),
        ("reason", t("reason")),
        ("created_at", t("submitted")),
    ]
    session.show({"items": found}, listing(columns, found))


@app.command(help=N_("Show a job: its state, tasks, attempts and cost so far."))
def show(ctx: typer.Context, job: JobArgument) -> None:
    session = of(ctx)
    portal = session.portal
    found = portal.jobs.get(job)
    tasks, attempts, cost, artefacts = (
        portal.jobs.tasks(job),
        portal.jobs.attempts(job),
        portal.jobs.cost(job),
        portal.jobs.artefacts(job),
    )
    session.emit({"job": found.raw, "tasks": tasks, "attempts": attempts, "cost": cost, "artefacts": artefacts})
    if session.json:
        return
    rows = [
        (t("job"), found.id),
        (t("name"), found.name),
        (t("project"), found.project),
        (t("state"), t_state(found.state.value)),
    ]
    rows += [
        (t("reason"), found.reason),
        (t("submitted"), found.created_at),
        (t("cost so far"), money_text(cost.get("total"))),
    ]
    session.out.print(pairs(rows))
    waiting = [(text(task.get("name")), task.get("waiting")) for task in tasks if task.get("waiting")]
    for name, why in waiting:
        session.say(
            t("{task} waits: see `idlewild explain {id}`", task=name, id=job)
            if isinstance(why, dict)
            else f"{name}: {why}"
        )
    attempt_columns = [
        ("number|fence", "#"),
        ("id", t("attempt")),
        ("node", t("node")),
        ("region", t("region")),
        ("state", t("state")),
    ]
    attempt_columns += [
        ("reason", t("reason")),
        ("exit_code", t("exit")),
        ("started_at", t("started")),
        ("ended_at", t("ended")),
    ]
    if attempts:
        session.out.print(listing(attempt_columns, attempts, title=t("attempts")))
    if artefacts:
        session.out.print(
            listing(
                [("id", t("output")), ("name", t("name")), ("size_bytes", t("bytes")), ("expires_at", t("kept until"))],
                artefacts,
                title=t("outputs"),
            )
        )
    lines = rows_of(cost.get("lines"))
    if lines:
        columns = [
            ("description|resource", t("line")),
            ("quantity", t("quantity")),
            ("unit", t("unit")),
            ("unit_price", t("unit price")),
            ("amount", t("amount")),
        ]
        session.out.print(listing(columns, lines, title=t("coming invoice lines")))


@app.command(help=N_("Show what happened to a job, in order."))
def events(ctx: typer.Context, job: JobArgument) -> None:
    session = of(ctx)
    found = session.portal.jobs.events(job)
    session.emit({"items": [event.raw for event in found]})
    for event in found:
        session.say(f"{event.created_at}  {event_line(event)[2:]}")


@app.command(help=N_("Show a job's log, and follow it while the job runs."))
def logs(
    ctx: typer.Context,
    job: Annotated[
        str, typer.Argument(metavar="JOB[/TASK]", help=N_("A job's id, with a task if only its log is wanted."))
    ],
    attempt: Annotated[str, typer.Option(help=N_("Only this attempt: its id or its number."))] = "",
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help=N_("Wait for more until the job ends."))] = True,
    stream: Annotated[str, typer.Option(help=N_("Only stdout or stderr."))] = "",
) -> None:
    session = of(ctx)
    if stream not in {"", "stdout", "stderr"}:
        raise typer.BadParameter(t("--stream is stdout or stderr."))
    name, _, task = job.partition("/")
    ctrl_c = Interrupts()
    follower = Follower(session.portal, name, attempt=attempt, task=task, stream=stream, sleep=ctrl_c.sleep)
    if follow:
        with ctrl_c:
            try:
                for item in follower.items():
                    if isinstance(item, Line):
                        told_line(session, item)
            except KeyboardInterrupt:
                return
        return
    session.portal.jobs.get(name)
    for line in [*follower.lines(), *follower.rest()]:
        told_line(session, line)


def told_line(session: Session, line: Line) -> None:
    session.emit({"type": "log", "attempt": line.attempt, "stream": line.stream, "text": line.text})
    session.say(line.text)


@app.command(help=N_("Say why a job waits, why it runs where it runs, or why it ended."))
def explain(ctx: typer.Context, job: JobArgument) -> None:
    session = of(ctx)
    found = session.portal.jobs.explain(job)
    session.emit(found)
    if session.json:
        return
    written = text(found.get("text"))
    if written:
        session.say(written)
        return
    session.out.print(pairs([(name, value) for name, value in found.items() if not isinstance(value, list)]))
    for tier in rows_of(found.get("tiers")):
        session.out.print(front.refusals([{**row, "tier": tier.get("tier")} for row in rows_of(tier.get("refused"))]))


@app.command(help=N_("Cancel jobs; one that has ended stays as it is."))
def cancel(
    ctx: typer.Context,
    job: Annotated[list[str], typer.Argument(metavar="JOB…", help=N_("Ids of jobs."))],
    wait: Annotated[bool, typer.Option("--wait", help=N_("Come back when they have ended."))] = False,
) -> None:
    session = of(ctx)
    for name in job:
        answer = session.portal.jobs.cancel(name)
        if wait:
            answer = ended_job(session.portal, name)
        session.emit({"job": answer.raw})
        session.say(
            t("Cancelled {id}.", id=name) if answer.state.is_terminal else t("{id} is being cancelled.", id=name)
        )


def ended_job(portal: Idlewild, job: str) -> Job:
    while True:
        found = portal.jobs.get(job)
        if found.state.is_terminal:
            return found
        time.sleep(0.5)


@app.command(help=N_("Run the failed tasks of a job again, under the same id."))
def retry(
    ctx: typer.Context,
    job: JobArgument,
    wait: Annotated[bool, typer.Option("--wait", help=N_("Follow the job to its end."))] = False,
) -> None:
    session = of(ctx)
    answer = session.portal.jobs.retry(job, key=session.key)
    session.emit({"job": answer.raw})
    session.say(t("{id} runs again.", id=job))
    if wait:
        with Interrupts() as ctrl_c:
            ended = followed(session, job, ctrl_c)
        concluded(session, ended)


@app.command(help=N_("Copy a job's outputs here: JOB, JOB/NAME or an artefact's id, and a folder or file."))
def cp(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="SRC", help=N_("JOB, JOB/NAME or an artefact's id."))],
    target: Annotated[Path, typer.Argument(metavar="DST", help=N_("A folder, or the file's new name."))],
) -> None:
    session = of(ctx)
    if source.startswith("art_"):
        download(session, {"id": source, "name": source}, target / source if target.is_dir() else target)
        return
    job, _, name = source.partition("/")
    fetched(session, job, target, name=name)


def fetched(session: Session, job: str, target: Path, *, name: str = "") -> None:
    """Copy all outputs of the job into a folder, or the named one."""
    found = session.portal.jobs.artefacts(job)
    wanted = [row for row in found if not name or text(row.get("name")) == name]
    if not wanted:
        there = ", ".join(text(row.get("name")) for row in found)
        raise ClientError(
            t("{job} has no output {name}; it has: {there}", job=job, name=name or "–", there=there or "–"),
            code="output_unknown",
        )
    single = bool(name) and not target.is_dir() and not str(target).endswith("/")
    for row in wanted:
        folder = ".tar" if row.get("kind") == "DIRECTORY" else ""
        file = target if single else target / (Path(text(reach(row, "path|name"))).name + folder)
        download(session, row, file)


def download(session: Session, row: Row, file: Path) -> None:
    size = session.portal.artefacts.download(text(row.get("id")), file, sha256=text(row.get("sha256")))
    session.emit({"type": "output", "name": row.get("name"), "path": str(file), "size_bytes": size})
    session.say(t("{file}: {size}", file=file, size=front.size(size)))
