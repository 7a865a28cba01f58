"""What people are told about their wallet: it runs low (once until the next top-up), it is dry (once for each attempt that is stopped)."""

from datetime import datetime, timedelta

from django.conf import settings

from billing.domain import holds as rules
from billing.domain.ledger import AccountKind
from billing.models import Terms
from billing.selectors import balances, taxes
from billing.services import telling
from portal.accounts.models import Organisation
from portal.audit.services import note
from portal.kit.money import Money

AHEAD = timedelta(hours=1)


def low(*, tenant: Organisation, hour_micro: int, now: datetime) -> bool:
    """Tell that the wallet holds less than its mark (default: an hour of what runs now). Once until it is topped up again; True if told now."""
    row = Terms.objects.filter(organisation=tenant).first()
    if row is None or row.low_told_at is not None:
        return False
    code = tenant.currency
    mark = (
        rules.ahead(hour_micro, AHEAD, code, taxes.rate_ppm(tenant.id)).minor
        if row.low_minor is None
        else row.low_minor
    )
    free = balances.of(tenant.public_id, AccountKind.WALLET, code)
    if free >= mark:
        return False
    if Terms.objects.filter(organisation=tenant, low_told_at=None).update(low_told_at=now) != 1:
        return False  # another told them first
    left = Money(free, code).text()
    telling.people(
        tenant=tenant, key=f"wallet.low:{tenant.public_id}:{now.isoformat()}", now=now,
        subject="Your balance is running low · 余额不足提醒",
        lines=(
            f"{left} {code} are free for what runs now. Running jobs are stopped when the balance is used up. Top up to keep them running.",
            f"可用余额 {left} {code}。余额用尽时，运行中的作业会被停止。请及时充值。",
        ),
        link=f"{settings.IDLEWILD_BASE_URL}/wallet",
    )  # fmt: skip
    return True


def dry(*, tenant: Organisation, job_ref: str, job_name: str, attempt_ref: str, now: datetime) -> None:
    """Tell that a job is being stopped because nobody can pay for more of it."""
    telling.people(
        tenant=tenant, key=f"wallet.dry:{attempt_ref}", now=now,
        subject=f"Job {job_name} is stopped: the balance is used up · 作业 {job_name} 已停止：余额用尽",
        lines=(
            "The prepaid balance does not cover the next minutes, so the job is being stopped. Top up, then retry it.",
            "预付余额不足以支付接下来的几分钟，作业正在停止。请充值后重试。",
        ),
        link=f"{settings.IDLEWILD_BASE_URL}/jobs/{job_ref}",
    )  # fmt: skip
    note(
        actor="system", deed="wallet.dry", target=job_ref, organisation_id=tenant.id, data={"attempt": attempt_ref}, now=now
    )  # fmt: skip
