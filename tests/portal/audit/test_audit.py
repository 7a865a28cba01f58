"""The audit trail is written with the deed and refuses change."""

import pytest
from django.db import connection, transaction

from portal.audit import selectors
from portal.audit.models import AuditEvent
from portal.audit.services import note
from tests.cast import THEN

CHANGES = ["UPDATE audit_auditevent SET actor = 'x'", "DELETE FROM audit_auditevent", "TRUNCATE audit_auditevent"]


@pytest.fixture
def event(db):
    return note(
        actor="usr_1",
        deed="job.submit",
        target="job_1",
        organisation_id=7,
        address="192.0.2.1",
        data={"n": 1},
        now=THEN,
    )


@pytest.mark.parametrize("statement", CHANGES)
def test_it_refuses_change(event, statement):
    with (
        pytest.raises(Exception, match=r"append-only|permission denied"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)
    assert AuditEvent.objects.get().actor == "usr_1"


def test_it_is_rolled_back_with_its_deed(db):
    with transaction.atomic():
        note(actor="usr_1", deed="job.submit", target="job_1", now=THEN)
        transaction.set_rollback(True)
    assert not AuditEvent.objects.exists()


def test_it_is_read_by_organisation_and_by_target(event):
    other = note(actor="system", deed="node.list", target="nod_1", now=THEN)
    assert list(selectors.for_organisation(7)) == [event]
    assert list(selectors.of_target("nod_1")) == [other]
    assert list(selectors.everything()) == [other, event]
    assert str(event) == "usr_1 job.submit job_1"
