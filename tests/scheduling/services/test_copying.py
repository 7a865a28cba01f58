"""COPY writes what an INSERT would have written."""

import pytest

from scheduling.models import MarketChange, PlacementDecision
from scheduling.services import copying
from tests.cast import THEN, Person
from tests.factories.work import a_job

pytestmark = pytest.mark.django_db


def test_rows_come_back_as_they_were(ada: Person) -> None:
    task = a_job(ada).tasks.get()
    shared = {"text": 'tab\t, line\n, "quoted", \\ and 中文', "list": [1, None, True]}
    rows = [
        PlacementDecision(
            task=task, decided_at=THEN, seed=number, versions={}, inputs=shared, digest="d", front={}, choice=shared
        )
        for number in range(3)
    ]
    copying.write(rows)
    found = list(PlacementDecision.objects.order_by("id"))
    assert [one.seed for one in found] == [0, 1, 2]
    assert all(one.inputs == one.choice == shared for one in found)
    assert {one.public_id for one in found} == {one.public_id for one in rows}
    assert found[0].attempt_id is None
    assert found[0].refused == []


def test_nothing_is_nothing() -> None:
    copying.write([])
    assert MarketChange.objects.filter(changed_in=-1).count() == 0
