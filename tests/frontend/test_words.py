"""Everything that is stored as a state, reason or kind has a word, a tone and an icon; and every icon is drawn."""

from collections.abc import Iterable
from typing import Any

import pytest

from billing.domain.bank import TransferState
from billing.domain.endings import REASONS
from billing.domain.holds import HoldState
from billing.domain.invoicing import InvoiceState
from billing.domain.metering import Resource
from billing.domain.payout import KycState, PayoutState
from billing.domain.payout import WaitReason as PayoutWait
from billing.domain.periods import PeriodState
from billing.domain.rail import PaymentState, Purpose
from billing.models import DisputeState, InboxState, PageState, RefundState
from frontend.presenters import deeds, words
from frontend.presenters.icons import ICONS
from marketplace.domain import enrolment, offer
from marketplace.models.fingerprints import FingerprintState
from marketplace.models.nodes import Isolation
from marketplace.models.offers import Rental
from marketplace.models.places import Tier
from marketplace.services.nodes import CHECKS
from portal.accounts.models import OrganisationState, Role
from portal.accounts.permissions import Deed
from scheduling.domain.artefact import ArtefactState
from scheduling.domain.attempt import AttemptState, Phase
from scheduling.domain.demand import Action, LeaseClass, Objective, Pick, TaskType
from scheduling.domain.job import JobState, TaskState
from scheduling.domain.lease import LeaseState
from scheduling.domain.reasons import EndReason, Fault, WaitReason

MEMBERS: dict[str, Iterable[Any]] = {
    "job": JobState,
    "task": TaskState,
    "attempt": AttemptState,
    "phase": Phase,
    "lease": LeaseState,
    "lease_class": LeaseClass,
    "node": enrolment.State,
    "offer": offer.State,
    "quote": ("open", "used", "expired"),
    "artefact": ArtefactState,
    "invoice": InvoiceState,
    "bank_transfer": TransferState,
    "period": PeriodState,
    "hold": HoldState,
    "payment": PaymentState,
    "payment_for": Purpose,
    "hosted_page": PageState,
    "refund": RefundState,
    "dispute": DisputeState,
    "payout": PayoutState,
    "payout_wait": PayoutWait,
    "kyc": KycState,
    "inbox": InboxState,
    "organisation": OrganisationState,
    "role": Role,
    "tier": Tier,
    "isolation": Isolation,
    "fingerprint": FingerprintState,
    "rental": Rental,
    "resource": Resource,
    "fault": Fault,
    "reason": (*EndReason, *REASONS),
    "waiting": WaitReason,
    "objective": Objective,
    "pick": Pick,
    "task_type": TaskType,
    "disconnect": Action,
    "check_name": CHECKS,
}


@pytest.mark.parametrize("kind", sorted(MEMBERS))
def test_every_member_has_a_word(kind: str) -> None:
    missing = {str(getattr(member, "value", member)) for member in MEMBERS[kind]} - set(words.KINDS[kind])
    assert not missing


@pytest.mark.parametrize("kind", sorted(words.KINDS))
def test_every_word_has_a_tone_and_a_drawn_icon(kind: str) -> None:
    for value, word in words.KINDS[kind].items():
        assert str(word.text), (kind, value)
        assert word.tone in words.TONES, (kind, value)
        assert word.icon in ICONS, (kind, value)


def test_every_deed_has_a_text() -> None:
    assert set(deeds.TEXTS) == {deed.value for deed in Deed}


def test_an_unknown_value_is_shown_quietly() -> None:
    word = words.word("job", "brand_new")
    assert (word.text, word.tone) == ("brand new", "quiet")


def test_events_that_are_written_have_words() -> None:
    """The types named in the source of scheduling."""
    import re
    from pathlib import Path

    source = Path(__file__).resolve().parents[2] / "scheduling"
    written = {
        found
        for path in source.rglob("*.py")
        for found in re.findall(
            r'(?:type=|Event\(\s*|^\s+)"((?:job|task|attempt)\.[a-z_]+)"', path.read_text(), re.MULTILINE
        )
    }
    assert written <= set(words.EVENT), written - set(words.EVENT)
