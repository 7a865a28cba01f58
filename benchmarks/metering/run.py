"""How fast usage is taken in, a month is closed and a month is shown, on the running product.

    .venv/bin/python benchmarks/metering/run.py [--quick] [--json] [--seed N]

It starts Idlewild privately (`manage.py up`, in a temporary state folder), sends records over HTTP as a cluster would, takes a month of usage in by COPY,
closes it for every tenant, and asks for one tenant's month. Nothing is left running. See README.md beside this file.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import httpx  # noqa: E402

from benchmarks.metering import baseline  # noqa: E402 the tree is not installed
from benchmarks.start.run import Failed, commit, machine, percentile, product  # noqa: E402
from portal.stack import places  # noqa: E402

SEED = 20261
RECORDS, QUICK_RECORDS = 1_000_000, 40_000
TENANTS, QUICK_TENANTS = 300, 12
LARGEST = 33
"""One tenant has so many times the records of another."""
BATCH, HTTP_BATCH = 20_000, 500
HTTP_BATCHES, QUICK_HTTP_BATCHES = 80, 12
SENDERS = 2
VIEWS = 100
PLAIN, QUICK_PLAIN = 20_000, 4_000
HTTP_RATE, COPY_RATE, CLOSE_S, VIEW_S = 2_000, 20_000, 60.0, 0.100


def sent(url: str, key: str, batches: Sequence[list[dict[str, str]]]) -> float:
    """Records per second over HTTP, by SENDERS connections, each batch answered before the next."""
    headers = {"Authorization": f"Bearer {key}"}

    def send(mine: Sequence[list[dict[str, str]]]) -> None:
        with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
            for rows in mine:
                answer = client.post("/api/v1/usage/imports", json={"source": "bench", "records": rows})
                if answer.status_code != 201 or answer.json()["stored"] != len(rows):
                    raise Failed(f"an import was answered {answer.status_code}: {answer.text[:300]}")

    send(batches[:1])  # the first request opens connections and loads code
    rest = batches[1:]
    began = time.perf_counter()
    with ThreadPoolExecutor(SENDERS) as pool:
        for done in [pool.submit(send, rest[start::SENDERS]) for start in range(SENDERS)]:
            done.result()
    return sum(map(len, rest)) / (time.perf_counter() - began)


def taken(owners: Sequence[Any], records: int, seed: int) -> tuple[float, float]:
    """(rows per second while storing, of the slowest tenth of the batches): COPY in batches of BATCH, several tenants in each."""
    from benchmarks.metering import world
    from billing.services import usage

    shares = [LARGEST, *[1] * (len(owners) - 1)]
    whole = sum(shares)
    batch: list[Any] = []
    rates: list[float] = []
    spent = stored = 0.0

    def store() -> None:
        nonlocal spent, stored
        began = time.perf_counter()
        answers = usage.record_many(facts=batch, now=max(fact.ended_at for fact in batch))
        took = time.perf_counter() - began
        if any(answer.answer != "stored" for answer in answers):
            raise Failed("a fact was not stored")
        spent, stored = spent + took, stored + len(batch)
        rates.append(len(batch) / took)
        batch.clear()

    for number, (owner, share) in enumerate(zip(owners, shares, strict=True)):
        for fact in world.facts(owner, records * share // whole, seed + number):
            batch.append(fact)
            if len(batch) == BATCH:
                store()
    if batch:
        store()
    return stored / spent, sorted(rates)[len(rates) // 10]


def closed(owners: Sequence[Any]) -> tuple[float, int]:
    """(seconds to close October for all, invoices)."""
    from benchmarks.metering import world
    from billing.models import Invoice
    from billing.services import periods

    began = time.perf_counter()
    periods.close_due(now=world.GRACE_OVER)
    took = time.perf_counter() - began
    made = Invoice.objects.filter(organisation__in=[owner.id for owner in owners]).count()
    if made != len(owners):
        raise Failed(f"{made} invoices for {len(owners)} tenants")
    return took, made


def viewed(owner: Any, times: int) -> list[float]:
    """Seconds for one tenant's month, by turns by project, day and user."""
    from benchmarks.metering import world
    from billing.selectors import usage

    took = []
    for turn in range(times):
        began = time.perf_counter()
        usage.overview(owner, month="2026-10", group_by=("project", "day", "user")[turn % 3], now=world.GRACE_OVER)
        took.append(time.perf_counter() - began)
    return took


def plain(state: Path, owner: Any, count: int, seed: int) -> float:
    from benchmarks.metering import world
    from billing.services import usage

    facts = list(world.facts(owner, count, seed))
    columns = [name for name in usage.RECORD if name not in {"energy_uwh", "carbon_ug", "carbon_market_ug"}]
    fixed = {"received_at": world.GRACE_OVER, "state": "ok", "oddity": "", "tiers": "[]", "labels": "{}"}
    rows = [[fixed[name] if name in fixed else getattr(fact, name) for name in columns] for fact in facts]
    database = f"host={places.postgres_socket_dir(state)} dbname=idlewild user=idlewild_owner"
    return baseline.plain_inserts(database=database, columns=columns, rows=rows)


def measured(*, quick: bool, seed: int) -> dict[str, Any]:
    here = machine()
    folder = Path(tempfile.mkdtemp(prefix="idlewild-bench-"))
    folder.chmod(0o711)  # as root, the database's account passes through
    state = folder / "state"
    state.mkdir()
    records, count = (QUICK_RECORDS, QUICK_TENANTS) if quick else (RECORDS, TENANTS)
    try:
        with product(state, folder / "up.log") as environment:
            os.environ.update({name: value for name, value in environment.items() if name.startswith("IDLEWILD_")})
            os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings"
            import django

            django.setup()
            figures = _figures(state, environment, records, count, quick, seed)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "claims": _claims(figures, records, count, quick),
        "baselines": {"plain_insert": {"rows_per_s": round(figures["plain"])}},
        "ratios": {"copy_over_plain_insert": round(figures["copy"] / figures["plain"], 2)},
        "seed": seed,
        "commit": commit(),
        "machine": here,
    }


def _figures(
    state: Path, environment: Mapping[str, str], records: int, count: int, quick: bool, seed: int
) -> dict[str, float]:
    from benchmarks.metering import world
    from portal.accounts.services import keys
    from portal.accounts.services.sign_up import sign_up

    made = sign_up(
        email="bench@example.org", password="metering-bench-1", name="Bench", organisation_name="Bench", currency="CNY",
        period_timezone="UTC", now=world.OCTOBER,
    )  # fmt: skip
    member = made.organisation.memberships.get()
    key = keys.create(
        member=member, name="bench", by=made.user.public_id, scopes=["money.move"], now=world.OCTOBER
    ).text
    batches = [world.rows(HTTP_BATCH, batch) for batch in range(QUICK_HTTP_BATCHES if quick else HTTP_BATCHES)]
    http = sent(environment["IDLEWILD_URL"], key, batches)
    owners = world.tenants(count, "metering")
    copy, slowest = taken(owners, records, seed)
    close_s, _ = closed(owners)
    views = viewed(owners[0], VIEWS)
    return {
        "http": http, "copy": copy, "slowest": slowest, "close_s": close_s, "view_s": percentile(views, 0.95),
        "plain": plain(state, owners[1], QUICK_PLAIN if quick else PLAIN, seed),
    }  # fmt: skip


def _claims(figures: Mapping[str, float], records: int, count: int, quick: bool) -> list[dict[str, Any]]:
    mark = ".quick" if quick else ""
    close_s = CLOSE_S * records / RECORDS if quick else CLOSE_S
    rows = [
        ("metering.http", f"usage records over HTTP, batches of {HTTP_BATCH}", figures["http"], HTTP_RATE, "records/s"),
        ("metering.copy", f"usage records by COPY, batches of {BATCH}", figures["copy"], COPY_RATE, "rows/s"),
        ("metering.close", f"close of {count} tenants with {records} records", figures["close_s"], -close_s, "s"),
        ("metering.view", f"one tenant's month by project, day, user, p95 of {VIEWS}", figures["view_s"], -VIEW_S, "s"),
    ]
    return [
        {
            "id": name + mark,
            "what": what,
            "value": round(value, 4 if target < 0 else 0),
            "unit": unit,
            "target": f"<= {-target:g}" if target < 0 else f">= {target:g}",
            "ok": value <= -target if target < 0 else value >= target,
        }
        for name, what, value, target, unit in rows
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_RECORDS} records of {QUICK_TENANTS} tenants")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    try:
        result = measured(quick=options.quick, seed=options.seed)
    except Failed as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        for claim in result["claims"]:
            mark = "ok " if claim["ok"] else "NOT"
            print(f"{mark} {claim['what']}: {claim['value']} {claim['unit']} (target {claim['target']})")
        print(
            f"    baseline: plain INSERT {result['baselines']['plain_insert']['rows_per_s']} rows/s; ours × {result['ratios']['copy_over_plain_insert']}"
        )
    return 0 if all(claim["ok"] for claim in result["claims"]) else 1


if __name__ == "__main__":
    sys.exit(main())
