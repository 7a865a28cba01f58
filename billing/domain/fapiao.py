"""The record of a fapiao (发票): what the tax bureau's system is given, and what became of the request.

==========  ==========  ==========  ==========
state       issued      refused     reversed
==========  ==========  ==========  ==========
requested   issued      refused     ✗
issued      ✗           ✗           reversed (红字发票)
==========  ==========  ==========  ==========

``refused`` and ``reversed`` are ends; a new request may follow. The seventeen digits and letters of a social credit code (统一社会信用代码, GB 32100)
are followed by a check character; a code that fails it is refused at the door, as a fapiao on it could not be used.
"""

from collections.abc import Mapping
from enum import StrEnum

from portal.kit.machine import step

ALPHABET = "0123456789ABCDEFGHJKLMNPQRTUWXY"
WEIGHTS = (1, 3, 9, 27, 19, 26, 16, 17, 20, 29, 25, 13, 8, 24, 10, 30, 28)
DIGITS = "零壹贰叁肆伍陆柒捌玖"
PLACES = ("", "拾", "佰", "仟")
GROUPS = ("", "万", "亿", "万亿")
ITEM = "*信息技术服务*算力服务费"
"""货物或应税劳务名称."""


class FapiaoState(StrEnum):
    REQUESTED = "requested"
    ISSUED = "issued"
    REFUSED = "refused"
    REVERSED = "reversed"


class FapiaoEvent(StrEnum):
    ISSUED = "issued"
    REFUSED = "refused"
    REVERSED = "reversed"


class FapiaoEffect(StrEnum):
    """Nothing follows by itself: the tax bureau's system does the work."""


class FapiaoKind(StrEnum):
    NORMAL = "normal"  # 普通发票
    SPECIAL = "special"  # 增值税专用发票


TABLE: Mapping[tuple[FapiaoState, FapiaoEvent], tuple[FapiaoState, tuple[FapiaoEffect, ...]]] = {
    (FapiaoState.REQUESTED, FapiaoEvent.ISSUED): (FapiaoState.ISSUED, ()),
    (FapiaoState.REQUESTED, FapiaoEvent.REFUSED): (FapiaoState.REFUSED, ()),
    (FapiaoState.ISSUED, FapiaoEvent.REVERSED): (FapiaoState.REVERSED, ()),
}


def advance(state: FapiaoState, event: FapiaoEvent) -> FapiaoState:
    """The state after `event`; InvalidTransition when the table has no such pair."""
    return step(TABLE, state, event)[0]


def check_code(text: str) -> str:
    """A social credit code, upper case without spaces; ValueError says what is wrong with it."""
    code = text.replace(" ", "").upper()
    if len(code) != 18 or any(mark not in ALPHABET for mark in code):
        raise ValueError("a social credit code (统一社会信用代码) has 18 digits and letters, without I, O, S, V, Z")
    total = sum(weight * ALPHABET.index(mark) for weight, mark in zip(WEIGHTS, code, strict=False))
    if ALPHABET[-total % 31] != code[17]:
        raise ValueError("the check character of this social credit code does not fit: look for a mistyped character")
    return code


def capital(minor: int) -> str:
    """An amount of yuan in capital Chinese numerals (大写金额): 530.59 → 伍佰叁拾元伍角玖分. ValueError at 10^16 yuan and above."""
    yuan, cents = divmod(abs(minor), 100)
    if yuan >= 10**16:
        raise ValueError("this is more than a fapiao can say")
    sign = "负" if minor < 0 else ""
    jiao, fen = divmod(cents, 10)
    whole = _yuan(yuan) + "元" if yuan else ""
    if not cents:
        return sign + (whole or "零元") + "整"
    tenths = DIGITS[jiao] + "角" if jiao else ("零" if whole else "")
    return sign + whole + tenths + (DIGITS[fen] + "分" if fen else "整")


def _yuan(value: int) -> str:
    groups = []
    while value:
        value, group = divmod(value, 10_000)
        groups.append(group)
    text = ""
    gap = False
    for power in range(len(groups) - 1, -1, -1):
        group = groups[power]
        if not group:
            gap = True
            continue
        if text and (gap or group < 1000):
            text += DIGITS[0]
        text += _group(group) + GROUPS[power]
        gap = False
    return text


def _group(value: int) -> str:
    """One to four digits: 1005 → 壹仟零伍."""
    text, gap = "", False
    for place in range(3, -1, -1):
        digit = value // 10**place % 10
        if digit:
            text += (DIGITS[0] if gap and text else "") + DIGITS[digit] + PLACES[place]
            gap = False
        else:
            gap = True
    return text
