"""Exchange rates are entered, dated and with their source; a wrong one is corrected by a later row of the same day."""

from datetime import date, datetime

from django.utils.translation import gettext as _

from billing.domain import rates as rules
from billing.models import ExchangeRate
from portal.audit.services import note
from portal.kit.errors import Finding, InvalidInput
from portal.kit.money import CURRENCIES


def enter(*, day: date, base: str, quote: str, rate: str, source: str, by: str, now: datetime) -> ExchangeRate:
    """1 `base` = `rate` `quote` on `day`. InvalidInput names what is wrong."""
    wrong = []
    nano = 0
    for name, code in (("base", base), ("quote", quote)):
        if code not in CURRENCIES:
            wrong.append(
                Finding(name, "bad_currency", _("one of %(codes)s") % {"codes": ", ".join(sorted(CURRENCIES))})
            )
    if base == quote:
        wrong.append(Finding("quote", "bad_currency", _("a rate is between two currencies")))
    if day > now.date():
        wrong.append(Finding("day", "out_of_range", _("a rate of a day to come is not known yet")))
    if not source.strip():
        wrong.append(Finding("source", "required", _("name where the rate is from")))
    try:
        nano = rules.parse_rate(rate)
    except ValueError as fault:
        wrong.append(Finding("rate", "bad_value", str(fault)))
    if wrong:
        raise InvalidInput(wrong)
    row = ExchangeRate.objects.create(
        day=day, base=base, quote=quote, rate_nano=nano, source=source[:120], entered_by=by, entered_at=now
    )
    note(
        actor=by, deed="rate.enter", target=f"{base}/{quote}", organisation_id=None,
        data={"day": day.isoformat(), "rate": rules.rate_text(nano), "source": source}, now=now,
    )  # fmt: skip
    return row
