"""Checks that several services share: names, slugs, zones, currencies. Each gives a Finding or None."""

import re
from collections.abc import Iterable
from zoneinfo import available_timezones

from django.utils.text import slugify
from django.utils.translation import gettext as _

from portal import ids
from portal.kit.errors import Finding, InvalidInput
from portal.kit.money import CURRENCIES

SLUG = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
MOST_NAME = 120


def name(path: str, value: str, *, most: int = MOST_NAME) -> Finding | None:
    """1 to `most` characters that show something."""
    if not value.strip():
        return Finding(path, "blank", str(_("give it a name")))
    if len(value) > most:
        return Finding(path, "too_long", _("at most %(most)d characters") % {"most": most})
    if any(ord(letter) < 32 for letter in value):
        return Finding(path, "control_character", str(_("control characters are not allowed")))
    return None


def slug(path: str, value: str) -> Finding | None:
    """Lower case letters, digits, hyphens; 1 to 63."""
    if SLUG.fullmatch(value):
        return None
    return Finding(path, "bad_slug", str(_("1 to 63 lower case letters, digits and hyphens")), "vision-lab")


def time_zone(path: str, value: str) -> Finding | None:
    """An IANA name."""
    if value in available_timezones():
        return None
    return Finding(path, "unknown_time_zone", str(_("a name of the IANA list")), "Asia/Shanghai")


def currency(path: str, value: str) -> Finding | None:
    """One we bill in."""
    if value in CURRENCIES:
        return None
    return Finding(path, "unknown_currency", _("one of %(known)s") % {"known": ", ".join(sorted(CURRENCIES))})


def refuse(findings: Iterable[Finding | None]) -> None:
    """InvalidInput with every finding that is one."""
    real = [finding for finding in findings if finding is not None]
    if real:
        raise InvalidInput(real)


def slug_from(text: str) -> str:
    """A slug made of a name; for names without Latin letters a random word."""
    made = slugify(text)[:50].strip("-")
    return made or ids.token(8)
