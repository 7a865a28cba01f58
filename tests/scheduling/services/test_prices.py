"""P37: −1, 1e12, NaN and a seventh decimal are refused at every door that scheduling has."""

from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from portal.kit.errors import InvalidInput
from scheduling.admin import LinkForm
from scheduling.models import Job, Link
from tests.cast import Person
from tests.factories.market import a_link, a_region
from tests.scheduling.services.works import spec, submit

pytestmark = pytest.mark.django_db

PRICES = ["-1", "1e12", "NaN", "0.1234567", "Infinity", "1,5", ""]


@pytest.mark.parametrize("price", PRICES)
def test_a_bad_cap_is_refused_by_service_and_api(ada: Person, price: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        submit(ada, max_price=price)
    assert [f.code for f in caught.value.errors] == ["bad_amount"]
    answer = ada.program().post("/api/v1/jobs", {"spec": spec(max_price=price)})
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (422, "bad_amount")
    text = f"run: x\nmax_price: {price or chr(34) * 2}\n"
    assert ada.program().post("/api/v1/quotes", {"spec": text}).status_code == 422
    assert Job.objects.count() == 0


@pytest.mark.parametrize("value", ["-1", "1000000000001", "NaN", "0.5", ""])
def test_a_bad_price_of_a_link_is_refused_by_the_admin(value: str) -> None:
    form = LinkForm(
        {
            "source": "east",
            "target": "west",
            "rtt_us": 1,
            "bandwidth_mbps": 1,
            "price_micro_per_gb": value,
            "currency": "CNY",
        }
    )
    assert not form.is_valid()
    assert set(form.errors) == {"price_micro_per_gb"}


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("scheduling_link", "price_micro_per_gb", -1), ("scheduling_link", "price_micro_per_gb", 10**18), ("scheduling_job", "max_price_micro", -1),
        ("scheduling_job", "max_price_micro", 10**18), ("scheduling_job", "budget_minor", 0), ("scheduling_job", "budget_minor", -5),
    ],
)  # fmt: skip
def test_raw_sql_is_refused_too(ada: Person, table: str, column: str, value: int) -> None:
    submit(ada)
    a_link("east", "west")
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"UPDATE {table} SET {column} = %s", [value])


def test_an_operator_configures_a_link_in_the_admin(staff: Person) -> None:
    a_region("east")
    a_region("west")
    staff.user.is_staff = staff.user.is_superuser = True
    staff.user.save()
    values: dict[str, Any] = {
        "source": "east",
        "target": "west",
        "rtt_us": 1,
        "bandwidth_mbps": 1,
        "price_micro_per_gb": 5,
        "currency": "CNY",
    }
    page = staff.browser()
    assert page.post("/admin/scheduling/link/add/", values).status_code == 302
    link = Link.objects.get()
    assert link.price_micro_per_gb == 5
    changed = page.post(f"/admin/scheduling/link/{link.pk}/change/", {**values, "price_micro_per_gb": 7})
    assert changed.status_code == 302
    assert Link.objects.get().price_micro_per_gb == 7
    for thing in ("job", "task", "attempt", "lease", "nodestate", "quote", "placementdecision", "jobevent", "artefact"):
        assert page.get(f"/admin/scheduling/{thing}/").status_code == 200
        assert page.get(f"/admin/scheduling/{thing}/add/").status_code == 403
