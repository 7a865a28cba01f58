"""The main job, shown: ``python -m portal.demo.main_job``, which `./dev up` starts once its four nodes run.

It does what a tenant would do, with the tenant's own tool: every step is `python -m client --json …` as a process. Only two things are
done from inside: the demo tenant's key is made by `manage.py demo_key`, through the service that makes keys, and the node is killed by asking `up`
(portal.stack.control), which holds it down until the job is done.

    market ready → quote, front, choice → running, log → node killed → lapsed → placed elsewhere, fence + 1 → finished
    → both attempts' time, coming lines, upcoming invoice → last month's invoice (PDF, CSV), verified

Each step is printed with the seconds since the beginning. Nothing waits without a limit: a step that takes too long ends the story with
the sentence of what was waited for, and exit code 1. Exit code 0 means that all of it was seen.
"""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from portal.stack import control, places

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 132

MARKET_S = 240.0  # four nodes fingerprint one after the other
CALL_S = 60.0
START_S = 60.0
SEEN_BEFORE_KILL_S = 6.0  # the first usage report is there after five
LAPSE_S = 60.0
AGAIN_S = 90.0
END_S = 180.0
BILLED_S = 30.0
RUNS_S = 30  # what the job takes on any node
NODES_LEAST = 3
TRANSFER_BYTES = 2_000_000_000

SCRIPT = """
echo "survey of the moss tiles: {seconds} s of work on $(nproc) core(s), attempt $IDLEWILD_ATTEMPT"
i=1
while [ "$i" -le {seconds} ]; do
  sleep 1
  echo "tile $i of {seconds} done"
  i=$((i + 1))
done
mkdir -p out
{{ cat survey.csv; echo "tiles,{seconds}"; }} > out/report.csv
echo "report written"
"""


class Stuck(Exception):
    """A step did not come to its end; the text says what was waited for."""


@dataclass
class Story:
    """Prints what happens, with the seconds."""

    began: float = field(default_factory=time.monotonic)
    console: Console = field(default_factory=lambda: Console(width=WIDTH, highlight=False, emoji=False))

    def tell(self, sentence: str) -> None:
        self.console.print(f"{time.monotonic() - self.began:6.1f} s  {sentence}", markup=False, soft_wrap=True)

    def show(self, thing: Table) -> None:
        self.console.print(thing)


@dataclass(frozen=True)
class Command:
    """The tenant's command, as a process."""

    environment: Mapping[str, str]

    def process(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "client", "--json", *words],
            cwd=ROOT,
            env=dict(self.environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
        )

    def call(self, *words: str) -> dict[str, Any]:
        """The answer of one command: its first line. A refusal ends the story with its sentence."""
        said = " ".join(["idlewild", *words])
        with self.process(*words) as process:
            try:
                out, _ = process.communicate(timeout=CALL_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise Stuck(f"`{said}` did not answer within {CALL_S:.0f} s") from None
        if process.returncode != 0:
            raise Stuck(f"`{said}` ended with exit code {process.returncode}: {out.strip()[-600:]}")
        answer: dict[str, Any] = json.loads(out.splitlines()[0])
        return answer

    def calls(self, *commands: Sequence[str]) -> list[dict[str, Any]]:
        """Several at once, their answers in order."""
        with ThreadPoolExecutor(len(commands)) as threads:
            return list(threads.map(lambda words: self.call(*words), commands))


class Running:
    """`idlewild run …` with its lines as they come."""

    def __init__(self, command: Command, *words: str) -> None:
        self.process = command.process(*words)
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._other: list[str] = []
        threading.Thread(target=self._read, name="run", daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None  # noqa: S101 it was asked for
        for line in self.process.stdout:
            try:
                self._lines.put(json.loads(line))
            except ValueError:
                self._other.append(line.rstrip())
        self._lines.put(None)

    def lines(self, seconds: float, what: str) -> Iterator[dict[str, Any]]:
        """Lines until the limit; `Stuck` says what did not come. Ends when the command ends."""
        until = time.monotonic() + seconds
        while True:
            try:
                line = self._lines.get(timeout=max(0.05, until - time.monotonic()))
            except queue.Empty:
                raise Stuck(f"{what}: not within {seconds:.0f} s") from None
            if line is None:
                raise Stuck(f"{what}: the command ended before that. {' '.join(self._other)[-600:]}")
            if "error" in line:
                raise Stuck(f"{what}: {line['error'].get('detail', line['error'])}")
            yield line
            if time.monotonic() > until:
                raise Stuck(f"{what}: not within {seconds:.0f} s")

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


# --- what is shown ---------------------------------------------------------------------------------------------------------
def money(value: Any) -> str:
    return f"{value.get('amount')} {value.get('currency')}" if isinstance(value, Mapping) else str(value)


def name_of(value: Any) -> str:
    """A thing's name; money as money."""
    if isinstance(value, Mapping):
        return money(value) if "amount" in value else str(value.get("name") or value.get("id"))
    return str(value)


def front_table(quote: Mapping[str, Any]) -> Table:
    """The points of the front, all objectives side by side."""
    table = Table(
        title=f"Pareto front: {len(quote['points'])} placements over cost, time, green and transfer",
        title_justify="left",
    )
    for heading in ("", "node", "region", "cost", "finished in", "green share", "data moved", "best at"):
        table.add_column(heading)
    for point in quote["points"]:
        chosen = point["index"] == quote["pick"]
        table.add_row(*[Text(cell) for cell in point_cells(point, chosen)], style="bold" if chosen else None)
    return table


def point_cells(point: Mapping[str, Any], chosen: bool) -> list[str]:
    values, transfer = point.get("values") or {}, point.get("transfer") or {}
    moved = f"{int(transfer.get('bytes') or 0) / 1e9:.1f} GB"
    if transfer.get("cost"):
        moved += f" for {money(transfer['cost'])}"
    green = point.get("green_ratio", values.get("green"))
    return [
        f"{'→' if chosen else ' '} {point['index']}",
        name_of(point.get("node_name") or point.get("node")),
        str(point.get("region")),
        money((point.get("cost") or {}).get("expected")),
        f"{float(values.get('time_s') or values.get('time') or 0):.0f} s",
        "unknown" if green is None else f"{float(green) * 100:.0f} %",
        moved,
        ", ".join(point.get("roles") or []) or "–",
    ]


def line_table(title: str, lines: Sequence[Mapping[str, Any]]) -> Table:
    """Invoice lines: what, where, how much, at which price."""
    table = Table(title=title, title_justify="left")
    for heading in ("line", "provider", "quantity", "unit price", "amount", "why 0"):
        table.add_column(heading, overflow="fold")
    for line in lines:
        why = f"{line['unbilled_reason']} ({line.get('node') or ''})" if line.get("unbilled_reason") else ""
        cells = (
            str(line.get("description") or line.get("sku")),
            name_of(line.get("provider")),
            f"{line.get('quantity')} {line.get('unit')}",
            str(line.get("unit_price")),
            str(line.get("amount")),
            why,
        )
        table.add_row(*[Text(cell) for cell in cells])
    return table


# --- the story -------------------------------------------------------------------------------------------------------------
class MainJob:
    def __init__(self, *, story: Story, command: Command, state: Path, input_region: str) -> None:
        self.story, self.command, self.state = story, command, state
        self.input_region = input_region
        self.held: str = ""
        self.ended: dict[str, dict[str, Any]] = {}

    def run(self) -> None:
        self.market()
        running = Running(self.command, "run", str(self.spec_file()), "-y", "--fetch", str(self.folder()))
        try:
            job = self.quoted(running)
            first = self.started(running, job)
            self.killed(first)
            self.failed_over(running, job, first)
            self.finished(running)
            self.billed(job)
            self.last_month(self.month_and_history(job))
        finally:
            running.stop()
            self.restored()

    def folder(self) -> Path:
        folder = self.state / "demo" / "main-job"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def spec_file(self) -> Path:
        """The job: half a core, one virtual card, at least 30 s; its input lies in one region, so transfer differs by place."""
        spec = {
            "name": "moss-survey",
            "task_type": "data",
            "run": SCRIPT.format(seconds=RUNS_S),
            "resources": {"cpus": "0.5", "memory": "512MiB", "disk_size": "1", "accelerators": "virtual:1"},
            "inputs": [
                {
                    "path": "/job/survey.csv",
                    "content": "tile,moss\n1,0.8\n2,0.4\n",
                    "size_bytes": TRANSFER_BYTES,
                    "region": self.input_region,
                }
            ],
            "outputs": [{"name": "report", "path": "/job/out/report.csv"}],
            "max_duration": "5m",
            "max_price": "100",
            "on_disconnect": {"action": "replace", "lease": "standard"},
            "placement": {"optimize": ["cost", "time", "green", "transfer"], "pick": "knee"},
        }
        file = self.folder() / "job.yaml"
        file.write_text(json.dumps(spec, indent=2) + "\n")  # JSON is YAML
        return file

    def market(self) -> None:
        """Wait until enough nodes are for sale: enrolled, checked, fingerprinted."""
        until = time.monotonic() + MARKET_S
        told = -1
        while True:
            offers = self.command.call("offers", "search", "virtual=true").get("items") or []
            if len(offers) != told:
                told = len(offers)
                self.story.tell(f"market: {told} of the local nodes checked, fingerprinted and for sale")
            if told >= NODES_LEAST + 1 or (told >= NODES_LEAST and time.monotonic() > until - MARKET_S / 2):
                return
            if time.monotonic() > until:
                raise Stuck(f"waited {MARKET_S:.0f} s for {NODES_LEAST} nodes to be for sale; there are {told}")
            time.sleep(1)

    def quoted(self, running: Running) -> str:
        """The front, the choice and its reason, the job's id."""
        quote: dict[str, Any] = {}
        for line in running.lines(CALL_S, "a quote and a submitted job"):
            if line.get("type") == "quote":
                quote = line["quote"]
                self.story.tell(
                    f"quote {quote['id']}: {len(quote['points'])} points; input of 2.0 GB lies in {self.input_region}"
                )
                self.story.show(front_table(quote))
                self.check_front(quote)
                self.story.tell(f"choice: point {quote['pick']}. {reason_text(quote.get('reason'))}")
            elif line.get("type") == "job":
                self.story.tell(f"submitted {line['job']['id']} ({line['job'].get('name')})")
                return str(line["job"]["id"])
        raise Stuck("unreachable")

    def check_front(self, quote: Mapping[str, Any]) -> None:
        if len(quote["points"]) < 3:
            raise Stuck(f"the front has {len(quote['points'])} points, 3 were expected")

    def started(self, running: Running, job: str) -> dict[str, Any]:
        """Wait until the job has run for some seconds under the eyes of the tenant; the running attempt."""
        for line in running.lines(START_S, "the job's first process"):
            self.pass_on(line)
            if event_type(line) == "attempt.started":
                break
        began = time.monotonic()
        live = self.attempts(job)[-1]
        self.story.tell(
            f"running on {name_of(live.get('node'))} ({live.get('region', '')}), attempt {live.get('id')}, fence {live.get('fence')}, "
            f"isolation {live.get('isolation') or 'unknown'}"
        )
        for line in running.lines(START_S, "the job's first lines"):
            self.pass_on(line)
            if line.get("type") == "log" and time.monotonic() - began > SEEN_BEFORE_KILL_S:
                return live
        raise Stuck("the job printed nothing")

    def pass_on(self, line: Mapping[str, Any]) -> None:
        if line.get("type") == "log":
            self.story.tell(f"    log | {line.get('text')}")
        elif line.get("type") == "event":
            event = line["event"]
            details = event.get("data") or {}
            said = ", ".join(
                f"{k} {name_of(v)}" for k, v in details.items() if v not in (None, "", {}, []) and k != "final"
            )
            self.story.tell(f"  event | {event.get('type')}{': ' + said if said else ''}")

    def attempts(self, job: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.command.call("show", job)["attempts"]
        return sorted(rows, key=lambda row: int(row.get("fence") or row.get("number") or 0))

    def killed(self, attempt: Mapping[str, Any]) -> None:
        """SIGKILL to the whole node; `up` holds it down."""
        name = self.agent_of(attempt.get("node"))
        self.held = name
        answer = control.hold_down(name)
        self.story.tell(
            f"KILLED: node {name_of(attempt.get('node'))} ({name}): SIGKILL to its agent, supervisors and job, "
            f"{len(answer.get('killed') or [])} processes; it is held down on purpose"
        )

    def agent_of(self, node: Any) -> str:
        """`agent-N` of a node, by the identity file in its folder."""
        wanted = {str(node.get("id")), str(node.get("name"))} if isinstance(node, Mapping) else {str(node)}
        for name, row in control.status()["nodes"].items():
            try:
                identity = json.loads((Path(row["folder"]) / "node.json").read_text())
            except (OSError, ValueError):
                continue
            if {str(identity.get("node")), str(identity.get("name"))} & wanted:
                return str(name)
        raise Stuck(f"none of the local agents is the node {wanted}")

    def restored(self) -> None:
        if self.held:
            name, self.held = self.held, ""
            control.bring_back(name)
            self.story.tell(f"{name} starts again")

    def failed_over(self, running: Running, job: str, first: Mapping[str, Any]) -> None:
        """The first attempt is lost, a second one runs elsewhere under the next fence."""
        since = time.monotonic()
        for line in running.lines(LAPSE_S + AGAIN_S, "the job running again elsewhere"):
            self.pass_on(line)
            if event_type(line) == "attempt.started" and line["event"].get("attempt") != first.get("id"):
                break
        took = time.monotonic() - since
        rows = self.attempts(job)
        lost, again = rows[0], rows[-1]
        if lost.get("state") != "lost" or again.get("fence") != int(first.get("fence") or 0) + 1:
            raise Stuck(
                f"expected a lost attempt and the next fence, found {[(row.get('state'), row.get('fence')) for row in rows]}"
            )
        if name_of(again.get("node")) == name_of(lost.get("node")):
            raise Stuck("the second attempt runs on the node that was killed")
        self.story.tell(
            f"failed over in {took:.1f} s: {lost['id']} is lost ({lost.get('reason')}), "
            f"{again['id']} runs on {name_of(again.get('node'))} ({again.get('region', '')}) under fence {again.get('fence')}"
        )

    def finished(self, running: Running) -> None:
        for line in running.lines(END_S, "the end of the job"):
            self.pass_on(line)
            if line.get("type") == "ended" and line["job"].get("state") != "done":
                raise Stuck(f"the job ended as {line['job'].get('state')}: {line.get('reason')}")
            if line.get("type") == "output":
                self.story.tell(f"output {line['name']} fetched: {line['path']} ({line['size_bytes']} bytes)")
            if "exit" in line:
                self.story.tell(f"job finished, exit code {line['exit']}")
                return

    def billed(self, job: str) -> None:
        """Metered time of both attempts, the lost one as a line of 0; the upcoming invoice."""
        until = time.monotonic() + BILLED_S
        while True:
            shown = self.command.call("show", job)
            lines = shown["cost"].get("lines") or []
            units = {line.get("resource") for line in lines if not line.get("unbilled_reason")}
            unbilled = [line for line in lines if line.get("unbilled_reason")]
            if {"core", "card"} <= units and unbilled:
                break
            if time.monotonic() > until:
                there = [(row.get("resource"), row.get("amount")) for row in lines]
                raise Stuck(
                    f"waited {BILLED_S:.0f} s for lines of cores, cards and the lost attempt; there are {there}"
                )
            time.sleep(0.5)
        self.story.show(line_table(f"Coming lines of {job}: total {money(shown['cost'].get('total'))}", lines))
        self.check_lines(lines, unbilled)
        for attempt in sorted(shown["attempts"], key=lambda row: int(row.get("fence") or 0)):
            self.ended[str(attempt["id"])] = attempt

    def month_and_history(self, job: str) -> list[dict[str, Any]]:
        """What both attempts used, and the month so far; the invoices there are."""
        records, usage, invoices = self.command.calls(
            ("usage", "--job", job), ("usage", "--group-by", "line"), ("invoice", "list")
        )
        for name, attempt in self.ended.items():
            billed = "billed" if attempt.get("billed") else "not billed: a line of 0"
            self.story.tell(
                f"attempt under fence {attempt.get('fence')} on {name_of(attempt.get('node'))}: {attempt.get('state')}, "
                f"metered {metered(records['items'], name)}, {billed}"
            )
        lines = usage.get("lines") or []
        self.story.tell(
            f"upcoming invoice of {usage.get('month')}: {money(usage.get('total'))} so far in {len(lines)} lines, not final"
        )
        found: list[dict[str, Any]] = invoices.get("items") or []
        return found

    def check_lines(self, lines: Sequence[Mapping[str, Any]], unbilled: Sequence[Mapping[str, Any]]) -> None:
        if any(float(line["amount"]) != 0 for line in unbilled):
            raise Stuck("the lost attempt is not a line of 0")
        self.story.tell(
            f"{len(lines)} coming lines, {len(unbilled)} of them 0 for the lost attempt, on node {unbilled[0].get('node')}"
        )

    def last_month(self, invoices: Sequence[Mapping[str, Any]]) -> None:
        """The issued invoice: PDF and CSV on disk, every line recomputed."""
        if not invoices:
            raise Stuck("there is no invoice of last month")
        last = invoices[0]
        name, number = str(last["id"]), str(last["number"])
        self.story.tell(
            f"last month ({last.get('month')}, demo history): invoice {number}, {last.get('state')}, {money(last.get('total'))}"
        )
        files = {kind: str(self.folder() / f"{number}.{kind}") for kind in ("pdf", "csv")}
        *saved, proof = self.command.calls(
            *[("invoice", "download", name, file, "--format", kind) for kind, file in files.items()],
            ("invoice", "verify", name),
        )
        for kind, row in zip(files, saved, strict=True):
            self.story.tell(f"  {kind.upper()}: {row['path']} ({row['size_bytes']} bytes)")
        self.story.tell(
            f"  verified: {len(proof.get('lines') or [])} lines recomputed from {proof.get('records')} usage records, same total"
        )


def event_type(line: Mapping[str, Any]) -> str:
    return str(line["event"].get("type")) if line.get("type") == "event" else ""


def reason_text(reason: Any) -> str:
    if isinstance(reason, Mapping):
        return str(reason.get("text") or reason.get("sentence") or json.dumps(reason, ensure_ascii=False))
    return str(reason)


def metered(records: Sequence[Mapping[str, Any]], attempt: str) -> str:
    """Resource-seconds of an attempt, as its records prove them."""
    sums: dict[str, int] = {}
    for record in records:
        if record.get("attempt") == attempt and record.get("resource") in {"core", "card"}:
            sums[str(record["resource"])] = sums.get(str(record["resource"]), 0) + int(record["qty_us"])
    return " and ".join(f"{us / 1e6:.1f} {name}-seconds" for name, us in sorted(sums.items())) or "nothing"


# --- the demo tenant's way in ------------------------------------------------------------------------------------------------
def environment(url: str) -> tuple[dict[str, str], str]:
    """The client's environment with a fresh key of the demo tenant, and the region its data lies in."""
    made = subprocess.run(
        [sys.executable, "manage.py", "demo_key"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=CALL_S
    )
    if made.returncode != 0:
        raise Stuck(f"no key for the demo tenant: {made.stderr.strip()[-600:]}")
    answer = json.loads(made.stdout.splitlines()[-1])
    passed = {name: value for name, value in os.environ.items() if not name.startswith(("IDLEWILD_", "DJANGO_"))}
    return {**passed, "IDLEWILD_URL": url, "IDLEWILD_KEY": answer["key"], "IDLEWILD_LANG": "en"}, answer["region"]


def main() -> int:
    story = Story()
    url = f"http://127.0.0.1:{os.environ.get('IDLEWILD_PORT', '8000')}"
    try:
        given, region = environment(url)
        MainJob(story=story, command=Command(given), state=places.state_dir(), input_region=region).run()
    except (Stuck, control.NotRunning, subprocess.TimeoutExpired) as problem:
        story.tell(f"the main job did not finish: {problem}")
        return 1
    story.tell("main job finished")
    return 0


if __name__ == "__main__":
    sys.exit(main())
