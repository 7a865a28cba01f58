"""Usage that was metered elsewhere comes in once, whole or not at all."""

import io
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError, call_command

from billing.models import UsageImport, UsageRecord
from billing.selectors.usage import upcoming
from billing.services import documents, imports, usage
from portal.accounts.models import Project
from portal.kit.errors import InvalidInput
from tests.billing.books import AFTER_OCTOBER, OCTOBER, a_fact, a_tenant, october

pytestmark = pytest.mark.django_db
NOW = OCTOBER + timedelta(days=10)


def a_row(n=1, **values):
    known = {
        "id": f"job-{n}", "resource": "core", "started_at": "2026-10-05T00:00:00Z", "ended_at": "2026-10-05T02:00:00Z", "count": "4",
        "unit_price": "0.05", "project": "vision",
    }  # fmt: skip
    return known | values


@pytest.fixture
def tenant():
    tenant = a_tenant()
    Project.objects.create(
        organisation=tenant,
        slug="vision",
        name="Vision",
        department="Research",
        created_at=datetime(2026, 9, 1, tzinfo=UTC),
    )
    return tenant


def take(tenant, rows, **values):
    return imports.take(
        **({"organisation": tenant, "source": "slurm-a", "rows": rows, "by": "usr_1", "now": NOW} | values)
    )


def test_rows_become_usage_that_the_coming_invoice_shows(tenant):
    made = take(tenant, [a_row(1), a_row(2, count="0.5")])
    assert (made.rows, made.stored, made.duplicates) == (2, 2, 0)
    coming = upcoming(tenant.id, NOW)
    assert coming.total.text() == "0.45"
    assert (coming.lines[0].department, coming.lines[0].provider_name) == ("Research", tenant.name)


def test_what_was_sent_before_changes_nothing_and_other_content_is_a_conflict(tenant):
    take(tenant, [a_row(1)])
    again = take(tenant, [a_row(1), a_row(2), a_row(1, resource="card")])
    assert (again.stored, again.duplicates, again.conflicts) == (2, 1, 0)
    other = take(tenant, [a_row(1, count="5")])
    assert (other.stored, other.duplicates, other.conflicts) == (0, 0, 1)
    assert UsageRecord.objects.count() == 3


def test_one_bad_row_and_nothing_is_stored(tenant):
    with pytest.raises(InvalidInput) as refused:
        take(tenant, [a_row(1), a_row(2, unit_price="-1"), a_row(3, project="x")])
    assert [fault.path for fault in refused.value.errors] == ["row 2.unit_price", "row 3.project"]
    assert (UsageRecord.objects.count(), UsageImport.objects.count()) == (0, 0)


@pytest.mark.parametrize(
    ("values", "path"),
    [({"source": "Slurm A"}, "source"), ({"rows": []}, "records"), ({"rows": [{}] * 100_001}, "records")],
)
def test_a_batch_that_cannot_be_taken_is_refused(tenant, values, path):
    with pytest.raises(InvalidInput) as refused:
        take(tenant, **({"rows": [a_row(1)]} | values))
    assert refused.value.errors[0].path == path


def test_a_csv_is_read_by_its_header_and_faults_name_the_row_of_the_spreadsheet(tenant):
    csv = "\ufeffid,resource,started_at,ended_at,count,unit_price\r\n1,core,2026-10-05T00:00:00Z,2026-10-05T01:00:00Z,2,0.10\r\n"
    made = imports.take_csv(organisation=tenant, source="csv", data=csv.encode(), by="usr_1", now=NOW)
    assert (made.stored, made.format) == (1, "csv")
    for text, says in (
        (csv + "2,core,now,later,1,1\r\n", "row 3.started_at"),
        (csv + "2,core\r\n", "row 3.started_at"),
        (csv + '2,"a"b,c\r\n', "file"),
        (csv + "3,core,2026-10-05T00:00:00Z,2026-10-05T01:00:00Z,2,0.10,x\r\n", "row 3.too many cells"),
    ):
        with pytest.raises(InvalidInput) as refused:
            imports.take_csv(organisation=tenant, source="csv", data=text.encode(), by="usr_1", now=NOW)
        assert refused.value.errors[0].path == says
    with pytest.raises(InvalidInput, match="UTF-8"):
        imports.take_csv(organisation=tenant, source="csv", data=b"\xff\xfe", by="usr_1", now=NOW)


def test_old_usage_is_not_quarantined_for_its_age(tenant):
    made = take(tenant, [a_row(1, started_at="1993-10-01T00:00:00Z", ended_at="1993-10-01T01:00:00Z"), a_row(2)])
    assert (made.stored, made.quarantined) == (2, 0)


def test_our_own_focus_file_can_be_imported_once(tenant):
    seller = a_tenant()
    fact = a_fact(seller, seconds=3600, project_ref="", project_name="", sku="card:A100-80GB:spot")
    usage.record(fact=fact, now=fact.ended_at)
    invoice = october(seller)
    data = bytes(documents.ensure(invoice=invoice, format="focus", now=AFTER_OCTOBER).content)
    made = imports.take_csv(organisation=tenant, source="other", data=data, by="usr_1", now=AFTER_OCTOBER)
    assert (made.format, made.stored, made.skipped) == ("focus", 1, 0)
    again = imports.take_csv(organisation=tenant, source="other", data=data, by="usr_1", now=AFTER_OCTOBER)
    assert (again.stored, again.duplicates) == (0, 1)
    record = UsageRecord.objects.get(organisation_id=tenant.id)
    assert (record.sku, record.unit_price_micro, record.qty_us) == (fact.sku, fact.unit_price_micro, fact.qty_us)


def test_a_focus_file_with_faults_is_refused_row_by_row(tenant):
    with pytest.raises(InvalidInput, match="faults in this FOCUS file") as refused:
        imports.take_csv(organisation=tenant, source="other", data=b"BilledCost,Id\r\nNULL,1\r\n", by="usr_1", now=NOW)
    assert {fault.line for fault in refused.value.errors} == {1, 2}
    text = documents.focus.text([dict.fromkeys(documents.focus.COLUMNS)])
    assert "BilledCost" in text


# --- the operator's command --------------------------------------------------------------------------------------------


def run(*words):
    out = io.StringIO()
    call_command("usage", *words, stdout=out)
    return out.getvalue().strip()


def test_the_command_imports_checks_and_proves(tenant, tmp_path, monkeypatch):
    file = tmp_path / "usage.csv"
    file.write_text("id,resource,started_at,ended_at,unit_price\n1,core,1993-10-05T00:00:00Z,1993-10-05T01:00:00Z,1\n")
    seller = a_tenant()
    said = run("import", str(file), "--source", "old", "--organisation", tenant.slug, "--provider", seller.slug)
    assert "1 rows, 1 stored" in said
    assert UsageRecord.objects.get().provider_ref == seller.public_id
    assert run("prove") == "the roll-up says what the records say; no two records overlap"
    with pytest.raises(CommandError, match="no organisation"):
        run("import", str(file), "--source", "old", "--organisation", "nobody")
    file.write_text("BilledCost\n" + "NULL\n" * 60)
    with pytest.raises(CommandError, match=r"(?s)row 1.*faults: "):
        run("check", str(file))
    file.write_text("id\n1\n")
    with pytest.raises(CommandError, match="source: the meter"):
        run("import", str(file), "--source", "O L D", "--organisation", tenant.slug)
    with pytest.raises(CommandError, match="No such file"):
        run("check", str(tmp_path / "none.csv"))
    fact = a_fact(seller)
    usage.record(fact=fact, now=fact.ended_at)
    file.write_bytes(bytes(documents.ensure(invoice=october(seller), format="focus", now=AFTER_OCTOBER).content))
    assert run("check", str(file)) == "this is a FOCUS 1.2 file without a fault"


# --- REST ---------------------------------------------------------------------------------------------------------------


def test_an_organisation_imports_its_own_usage_by_api(ada, ben, cleo):
    client = ada.web()
    body = {"source": "slurm", "records": [a_row(1, project="")]}
    first = client.post("/api/v1/usage/imports", body, format="json")
    assert first.status_code == 201, first.content
    assert first.json()["stored"] == 1
    text = "id,resource,started_at,ended_at\n9,core,2026-10-05T00:00:00Z,2026-10-05T01:00:00Z\n"
    by_csv = client.post("/api/v1/usage/imports", {"source": "slurm", "csv": text}, format="json")
    assert by_csv.json()["rows"] == 1
    assert [row["format"] for row in client.get("/api/v1/usage/imports").json()["items"]] == ["csv", "json"]
    for bad in (
        {"source": "slurm"}, {"source": "slurm", "records": [1]}, {"source": "slurm", "records": [{}] * 501}, {"source": "?", "csv": "x"},
    ):  # fmt: skip
        assert client.post("/api/v1/usage/imports", bad, format="json").status_code == 422
    assert cleo.web().get("/api/v1/usage/imports").json()["items"] == []
