"""A small world in which every page has something to show: offers, nodes in all states, jobs of every kind, an invoice."""

import gzip
from datetime import date, timedelta
from hashlib import sha256
from typing import Any

from billing.services import usage
from marketplace.models import Node, ReferencePrice
from portal import clock, softstate
from scheduling.services import logs
from tests.billing.books import OCTOBER, a_fact, october
from tests.cast import Person
from tests.factories.market import a_node, an_enrolled, an_invited
from tests.factories.work import a_job, an_attempt

LONG_MS = 600_000
WAITING = {
    "state": "queued",
    "position": 3,
    "tiers": [
        {"tier": "region", "seen": 6, "kept": 2, "refused": [{"reason": "link_over_latency", "count": 4, "asked": "20", "best": "34", "unit": "ms"}]},
        {"tier": "node", "seen": 41, "kept": 0, "refused": [{"reason": "price_over_max", "count": 41, "asked": "3.20", "best": "3.45", "unit": "CNY/h"}]},
    ],
    "helps": [{"change": "max_price 3.45", "nodes": 12}],
}  # fmt: skip


def a_world(ada: Person, sol: Person) -> dict[str, str]:
    """Make it; name → id of what pages need in their address."""
    now = clock.now()
    mine = a_node(ada, gpus=2, virtual=True, isolation="bwrap", name="moss-1", region="shanghai", now=now)
    thrift = a_node(
        sol,
        region="north-sea",
        name="sol-thrift",
        now=now,
        prices={"core": "0.035"},
        terms={"spot_prices": {"core": "0.02"}},
    )
    meadow = a_node(
        sol,
        gpus=4,
        region="fjord",
        name="sol-meadow",
        now=now,
        prices={"core": "0.2", "card": "1.5"},
        terms={"green_ratio": "0.98"},
    )
    a_node(
        sol, gpus=4, region="shanghai", name="sol-night", now=now, terms={"hours": [{"from": "22:00", "to": "07:00"}]}
    )
    for node in Node.objects.all():
        softstate.put(f"alive:{node.public_id}", int(now.timestamp() * 1000) + LONG_MS, ttl_ms=LONG_MS)
    for number in range(1, 6):
        ReferencePrice.objects.create(
            market="Example Cloud", name=f"gpu.{number}x", region="eu-west", card_model="A100-80GB", cards=number, cores=8 * number,
            memory_gib=64 * number, price_micro=2_500_000 * number, spot_price_micro=900_000 * number, currency="USD",
            source="example list", licence="CC0", listed_on=date(2026, 10, 1),
        )  # fmt: skip
    job = a_job(ada, name="moss-classifier", state="running", now=now - timedelta(minutes=5))
    lost = an_attempt(
        job, thrift, state="lost", now=now - timedelta(minutes=4), proven_until=now - timedelta(minutes=2),
        ended_at=now - timedelta(minutes=1, seconds=40), reason="node_lost", fault="provider",
    )  # fmt: skip
    running = an_attempt(
        job, meadow, now=now - timedelta(minutes=1, seconds=30), proven_until=now - timedelta(seconds=10), phase="run"
    )
    _used(ada, job, running, now, since_s=90, seconds=80, place="fjord", green_ppm=980_000)
    _used(ada, job, lost, now, since_s=240, seconds=120, place="north-sea", green_ppm=600_000)
    ended = now - timedelta(minutes=1, seconds=40)
    usage.end_attempt(
        attempt_ref=lost.public_id,
        reason="node_lost",
        fault="provider",
        billed=False,
        message="",
        ended_at=ended,
        now=now,
    )
    _printed(running, "moss tiles: 24 to classify\n" + "".join(f"tile {n} of 24 classified\n" for n in range(1, 10)))
    waits = a_job(ada, name="river-flood", now=now)
    task = waits.tasks.get()
    task.waiting, task.waiting_since = WAITING, now
    task.save()
    failed = a_job(
        ada,
        name="docking-sweep",
        state="failed",
        now=now - timedelta(hours=3),
        ended_at=now - timedelta(hours=2),
        reason="exit_nonzero",
    )
    invoice = _october(ada)
    return {
        "NODE": mine.public_id,
        "OFFER": mine.offers.get().public_id,
        "INVITED": an_invited(ada, name="moss-2", region="shanghai", now=now).node.public_id,
        "PROBING": an_enrolled(ada, name="moss-3", region="shanghai", now=now).node.public_id,
        "JOB": job.public_id,
        "WAITING": waits.public_id,
        "FAILED": failed.public_id,
        "INVOICE": invoice.public_id,
        "PROJECT": ada.project.slug,
    }


def _used(
    ada: Person, job: Any, attempt: Any, now: Any, *, since_s: int, seconds: int, place: str, green_ppm: int
) -> None:
    of = {
        "attempt_ref": attempt.public_id,
        "job_ref": job.public_id,
        "job_name": job.name,
        "node_ref": attempt.node.public_id,
        "started_at": now - timedelta(seconds=since_s),
        "seconds": seconds,
        "green_ratio_ppm": green_ppm,
        "region": place,
        "zone": f"{place}/a",
    }
    cores = {"resource": "core", "count_milli": 8_000, "unit_price_micro": 200_000, "price_version_ref": "prv_core"}
    usage.record(fact=a_fact(ada.organisation, **of), now=now)
    usage.record(fact=a_fact(ada.organisation, **of, **cores), now=now)


def _printed(attempt: Any, text: str) -> None:
    data = text.encode()
    digest = sha256(data).hexdigest()
    logs.append(attempt=attempt, stream="stdout", offset=0, packed=gzip.compress(data), digest=digest, now=clock.now())


def _october(ada: Person) -> Any:
    home, end = ada.organisation, OCTOBER + timedelta(hours=3)
    good = {"attempt_ref": "att_good", "seconds": 5_400, "green_ratio_ppm": 800_000}
    for fact in (
        a_fact(home, **good),
        a_fact(
            home, **good, resource="core", count_milli=8_000, unit_price_micro=200_000, price_version_ref="prv_core"
        ),
        a_fact(home, attempt_ref="att_lost", seconds=360, started_at=OCTOBER + timedelta(hours=2)),
    ):
        usage.record(fact=fact, now=fact.ended_at)
    usage.end_attempt(
        attempt_ref="att_good", reason="finished", fault="none", billed=True, message="", ended_at=end, now=end
    )
    usage.end_attempt(
        attempt_ref="att_lost", reason="node_lost", fault="provider", billed=False, message="", ended_at=end, now=end
    )
    return october(home)


PUBLIC = {
    "landing": "/",
    "sign-in": "/accounts/login/",
    "sign-up": "/accounts/signup/",
    "reset": "/accounts/password/reset/",
}
TENANT = {
    "home": "/home",
    "market": "/market",
    "reference-prices": "/market?tab=reference",
    "links": "/market?tab=links",
    "jobs": "/jobs",
    "new-job": "/jobs/new?sample=hello",
    "new-job-yaml": "/jobs/new?sample=card&mode=yaml",
    "job": "/jobs/JOB",
    "job-cost": "/jobs/JOB?tab=cost",
    "job-waiting": "/jobs/WAITING",
    "job-failed": "/jobs/FAILED",
    "job-description": "/jobs/JOB?tab=spec",
    "capacity": "/capacity",
    "usage": "/usage?month=2026-10",
    "invoices": "/invoices",
    "invoice": "/invoices/INVOICE",
    "invoice-line": "/invoices/INVOICE/lines/1",
    "wallet": "/wallet",
    "budgets": "/budgets",
    "payments": "/payments",
    "projects": "/projects",
    "members": "/settings/members",
    "api-keys": "/settings/keys",
    "secrets": "/settings/secrets",
    "webhooks": "/settings/webhooks",
    "organisation": "/settings/organisation",
    "profile": "/settings/profile",
    "password": "/accounts/password/change/",
    "passkeys": "/accounts/2fa/",
    "authenticator": "/accounts/2fa/totp/activate/",
    "e-mail": "/accounts/email/",
}
PROVIDER = {
    "add-node": "/provide/add",
    "add-node-waiting": "/provide/add/INVITED",
    "add-node-checks": "/provide/add/PROBING",
    "nodes": "/provide/nodes",
    "node": "/provide/nodes/NODE",
    "offers": "/provide/offers",
    "offer": "/provide/offers/OFFER",
    "earnings": "/provide/earnings",
    "payouts": "/provide/payouts",
}
OPERATOR = {
    "fleet": "/operate/fleet",
    "queue": "/operate/queue",
    "all-jobs": "/operate/jobs",
    "organisations": "/operate/organisations",
    "payment-rail": "/operate/rail",
    "bank-transfers": "/operate/bank",
    "invoice-desk": "/operate/invoices",
    "audit-trail": "/operate/audit",
}


def address(path: str, ids: dict[str, str]) -> str:
    for name, value in ids.items():
        path = path.replace(name, value)
    return path
