"""What an attempt uses: told by its agent, kept, shown."""

from datetime import timedelta

import pytest
from django.test import Client

from agent import protocol as wire
from scheduling.models import AttemptMetric
from scheduling.services import metrics
from tests.cast import THEN, Person, a_member
from tests.factories.market import a_node
from tests.factories.running import Work, a_running

S = timedelta(seconds=1)
MIB = 1 << 20


@pytest.fixture
def work(ben: Person, sol: Person) -> Work:
    work = a_running(ben, a_node(sol))
    samples = [metrics.Told((30 - second) * S, 0, second * 500_000, second * MIB, 0) for second in (0, 10, 20)]
    assert metrics.store(attempt=work.fresh(), samples=samples, now=THEN + 30 * S) == 3
    return work


def test_they_are_shown_as_points_beside_what_the_lease_gives(
    work: Work, ada: Person, ben: Person, cleo: Person
) -> None:
    path = f"/api/v1/jobs/{work.job.public_id}/metrics"
    shown = ben.web().get(path).json()
    assert (shown["attempt"], shown["cores_milli"], shown["memory_bytes"]) == (work.name, 1_000, 1_024 * MIB)
    assert [(one["at_s"], one["cores_milli"], one["memory_bytes"]) for one in shown["points"]] == [
        (10.0, 500, 10 * MIB),
        (20.0, 500, 20 * MIB),
    ]
    assert ben.web().get(f"{path}?attempt=1").json() == shown
    assert ben.web().get(f"{path}?attempt=x").status_code == 422
    assert ben.web().get(f"{path}?attempt=7").status_code == 404
    assert cleo.web().get(path).status_code == 404
    assert a_member(ada, "bill@example.org", "billing").web().get(path).status_code == 403


def test_old_ones_are_deleted(work: Work) -> None:
    assert metrics.expire(now=THEN + timedelta(days=30)) == 0
    assert metrics.expire(now=THEN + timedelta(days=31)) == 3


def test_an_agent_tells_them_under_its_fence(work: Work, client: Client) -> None:
    node = work.node
    node.refresh_from_db()

    def tell(fence: int, secret: str) -> int:
        batch = wire.MetricBatch(node.boot_id, node.incarnation, fence, (wire.Sample(0, 1, 2, 3, 4),))
        signed = {
            wire.HEADER_WIRE: "1",
            wire.HEADER_LEASE: secret,
            "Authorization": wire.authorization(node.public_id, "node-secret-of-the-tests"),
        }
        answer = client.post(
            wire.metrics_path(work.name), batch.to_wire(), content_type="application/json", headers=signed
        )
        return int(answer.status_code)

    assert tell(work.attempt.fence + 1, work.secret) == 410
    assert tell(work.attempt.fence, "guessed") == 404
    assert AttemptMetric.objects.count() == 3
    assert tell(work.attempt.fence, work.secret) == 200
    assert AttemptMetric.objects.filter(cpu_us=2, memory_bytes=3, network_bytes=4).count() == 1
