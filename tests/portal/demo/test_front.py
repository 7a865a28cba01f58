"""The demo's four nodes make a front worth looking at for its main job: at least 3 points that trade at least 3 objectives."""

import json
from datetime import UTC, datetime

from marketplace.services import nodes
from portal.accounts.models import Organisation
from portal.demo import seed
from portal.demo.main_job import MainJob
from scheduling.models import NodeState
from scheduling.services import capacity, quotes
from tests.factories.hardware import SomeHardware, SomeMetric, SomeReport, SomeSelfTest, cards

NOW = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)


def test_the_main_jobs_front(db, tmp_path):
    made = seed.seed(now=NOW, password="correct horse battery")
    hardware = SomeHardware(cores_milli=500, memory_mib=4096, disk_gib=20, devices=cards(2, virtual=True))
    for number, row in enumerate(made):
        node = nodes.enroll(token=row["token"], hardware=hardware, agent_version="1", boot_id="b", now=NOW).node
        speed = 100.0 + 0.5 * number  # four shares of one machine measure nearly the same
        report = SomeReport(short=True, metrics=(SomeMetric("gemm_512", value=speed), SomeMetric("triad", value=10.0)))
        node = nodes.on_inventory(
            node=node, hardware=hardware, agent_version="1", self_test=SomeSelfTest(), fingerprint=report, now=NOW
        )
        assert node.state == "listed"
        capacity.open_node(node=node, now=NOW)
    NodeState.objects.update(last_sync_at=NOW)
    job = MainJob(story=None, command=None, state=tmp_path, input_region=made[0]["region"])
    tenant = Organisation.objects.get(slug="moss-research")
    quote = quotes.make(actor_org=tenant, project=None, spec=json.loads(job.spec_file().read_text()), by="usr", now=NOW)
    assert len(quote.points) >= 3, (quote.points, quote.refused)
    assert {point["region"] for point in quote.points} == set(seed.TERMS), "each of the four is best at something"
    columns = {"expected_micro", "time_s", "green_ppm", "transfer_micro"}
    traded = {name for name in columns if len({point[name] for point in quote.points}) >= 3}
    assert len(traded) >= 3, quote.points
    assert quote.pick is not None
