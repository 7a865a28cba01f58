"""The filter language of offers (contracts §3): ``gpu_name in [A100-80GB,H100] num_gpus>=2 dph<4 green_ratio>=0.6``.

::

    filter = { clause }       all must hold
    clause = field op value | field ("in"|"notin") "[" value {"," value} "]"
    op     = "=" "!=" ">" ">=" "<" "<="
    value  = number[unit] | true | false | word | "text"

A closed set of fields, each of a kind with its units; never SQL. A row is a mapping field → value, where None means
*unknown*: no clause about an unknown value holds, not even ``!=``. Numbers are exact fractions.

:class:`BadFilter` (422 ``bad_filter``) says where, the nearest field, and what was expected.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from fractions import Fraction
from typing import Any

from portal.kit.errors import Finding, InvalidInput

MOST_CHARACTERS = 2000
MOST_CLAUSES = 40
MOST_VALUES = 100
MOST_KEYS = 3

Value = Fraction | bool | str | tuple[int, ...]
Row = Mapping[str, Any]


class Kind(StrEnum):
    NUMBER = "number"
    TEXT = "text"
    TEXTS = "texts"  # the row has several: `=` asks whether one of them is it
    TRUTH = "truth"
    VERSION = "version"  # 3.11 < 3.12 < 3.100


@dataclass(frozen=True)
class Field:
    """One field: its kind, the factors of its units ("" = a plain number), and what people read about it."""

    kind: Kind
    units: Mapping[str, Fraction]
    words: str


_ONE = {"": Fraction(1)}
_SIZE = {
    "": Fraction(1),
    "GiB": Fraction(1),
    "MiB": Fraction(1, 1024),
    "GB": Fraction(10**9, 2**30),
    "MB": Fraction(10**6, 2**30),
}
_SHARE = {"": Fraction(1), "%": Fraction(1, 100)}
_MILLISECONDS = {"": Fraction(1), "ms": Fraction(1), "s": Fraction(1000)}
_SPEED = {"": Fraction(1), "Mbps": Fraction(1), "Gbps": Fraction(1000)}
_SPAN = {
    "": Fraction(1),
    "d": Fraction(1),
    "h": Fraction(1, 24),
    "m": Fraction(1, 1440),
    "s": Fraction(1, 86400),
}
_PRICE = {"": Fraction(1), "/h": Fraction(1)}


def _number(words: str, units: Mapping[str, Fraction] = _ONE) -> Field:
    return Field(Kind.NUMBER, units, words)


def _text(words: str) -> Field:
    return Field(Kind.TEXT, {}, words)


FIELDS: dict[str, Field] = {
    "gpu_name": Field(Kind.TEXTS, {}, "card model"),
    "num_gpus": _number("cards of the offer"),
    "gpu_ram": _number("memory of a card, GiB", _SIZE),
    "cpu_cores": _number("cores of the offer"),
    "cpu_ram": _number("memory of the offer, GiB", _SIZE),
    "disk_space": _number("disk of the offer, GiB", _SIZE),
    "inet_up": _number("stream up, Mbps", _SPEED),
    "inet_down": _number("stream down, Mbps", _SPEED),
    "dph": _number("price of the asked shape an hour, now", _PRICE),
    "duration": _number("days left in the offer", _SPAN),
    "reliability": _number("share of attempts that it did not lose, 0 to 1", _SHARE),
    "verified": Field(Kind.TRUTH, {}, "has an accepted, unexpired fingerprint"),
    "price_card_hour": _number("price of a card-hour, now", _PRICE),
    "price_core_hour": _number("price of a core-hour, now", _PRICE),
    "spot_dph": _number("interruptible price of the asked shape an hour, now", _PRICE),
    "currency": _text("currency"),
    "window_open": Field(Kind.TRUTH, {}, "open at this hour"),
    "scu": _number("SCU of the asked shape for the task type"),
    "scu_per_price": _number("SCU for one unit of currency an hour"),
    "reliability_samples": _number("attempts behind the reliability"),
    "fingerprint_age": _number("days since the measurement", _SPAN),
    "green_ratio": _number("renewable share, 0 to 1", _SHARE),
    "region": _text("region"),
    "zone": _text("zone"),
    "tier": _text("centre, edge or site"),
    "pue": _number("energy factor of the zone"),
    "failure_domain": _text("what fails together"),
    "provider": Field(Kind.TEXTS, {}, "provider, by slug or name"),
    "rtt_ms": _number("round trip from the asked region, ms", _MILLISECONDS),
    "cpu_arch": _text("x86_64, aarch64"),
    "engine": _text("agent"),
    "executor": _text("bwrap, process"),
    "isolation": _text("full, bwrap or none"),
    "lease_class": Field(Kind.TEXTS, {}, "fast, standard, tolerant"),
    "virtual": Field(Kind.TRUTH, {}, "its cards are virtual: no hardware"),
    "kind": _text("live or reference"),
    "python": Field(Kind.VERSION, {}, "version of Python in the system tree"),
}
OPERATORS = ("!=", ">=", "<=", "=", ">", "<")
_ORDERED = frozenset({Kind.NUMBER, Kind.VERSION})
_EQUAL_ONLY = ("=", "!=", "in", "notin")
_TOKEN = re.compile(
    r"""\s*(?:(?P<op>!=|>=|<=|==|=|>|<)|(?P<open>\[)|(?P<close>\])|(?P<comma>,)|"(?P<text>[^"]*)"|(?P<word>[^\s\[\],"=!<>]+))"""
)
_NUMBER = re.compile(r"(-?\d{1,15}(?:\.\d{1,12})?)(.*)", re.DOTALL | re.ASCII)
_VERSION = re.compile(r"\d{1,5}(?:\.\d{1,5}){0,3}", re.ASCII)


class BadFilter(InvalidInput):
    """422: where the text stops making sense, the nearest field, and what is expected there."""

    def __init__(self, position: int, message: str, *, nearest: str | None = None, expected: str | None = None) -> None:
        finding = Finding("filter", "bad_filter", message, expected or nearest or "", line=1, column=position + 1)
        super().__init__([finding], f"{message} (at character {position + 1})", code="bad_filter")
        self.extra = {"position": position, "nearest": nearest, "expected": expected}


@dataclass(frozen=True)
class Clause:
    """One condition, with the text it was written as."""

    field: str
    op: str
    values: tuple[Value, ...]
    text: str

    def holds(self, row: Row) -> bool:
        """Does the row fulfil it? Unknown values fulfil nothing."""
        have = row.get(self.field)
        if have is None:
            return False
        kind = FIELDS[self.field].kind
        if kind is Kind.TEXTS:
            words = {fold(word) for word in have}
            found = any(value in words for value in self.values)
            return found if self.op in ("=", "in") else not found
        seen: Any = fold(have) if kind is Kind.TEXT else have
        if self.op in ("=", "in"):
            return any(_equal(kind, seen, value) for value in self.values)
        if self.op in ("!=", "notin"):
            return not any(_equal(kind, seen, value) for value in self.values)
        return _COMPARE[self.op](seen, self.values[0])


def _equal(kind: Kind, seen: Any, value: Any) -> bool:
    if kind is Kind.VERSION:  # 3.11 means every 3.11.x
        return bool(seen[: len(value)] == value)
    return bool(seen == value)


def _le(left: Any, right: Any) -> bool:
    """For versions: 3.11.2 <= 3.11 holds, as 3.11 means every 3.11.x."""
    if isinstance(right, tuple):
        return bool(left[: len(right)] <= right)
    return bool(left <= right)


def _gt(left: Any, right: Any) -> bool:
    return not _le(left, right)


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda left, right: bool(left < right),
    "<=": _le,
    ">": _gt,
    ">=": lambda left, right: bool(left >= right),
}


def fold(text: Any) -> str:
    """Words are compared without regard to case, spaces and underscores."""
    return re.sub(r"[\s_]+", "-", str(text).strip()).casefold()


def parse(text: str) -> tuple[Clause, ...]:
    """The clauses of a filter text; BadFilter for what cannot be read."""
    if len(text) > MOST_CHARACTERS:
        raise BadFilter(MOST_CHARACTERS, f"at most {MOST_CHARACTERS} characters")
    tokens = _tokens(text)
    clauses: list[Clause] = []
    index = 0
    while index < len(tokens):
        clause, index = _clause(text, tokens, index)
        clauses.append(clause)
        if len(clauses) > MOST_CLAUSES:
            raise BadFilter(tokens[index - 1].start, f"at most {MOST_CLAUSES} clauses")
    return tuple(clauses)


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        if not text[at:].strip():
            break
        found = _TOKEN.match(text, at)
        if found is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            raise BadFilter(at, "this cannot be read", expected='a field, an operator or a value; texts in "…"')
        kind = found.lastgroup or ""
        start = found.start(kind) - (1 if kind == "text" else 0)
        tokens.append(_Token(kind, found.group(kind), start, found.end()))
        at = found.end()
    return tokens


def _clause(text: str, tokens: list[_Token], index: int) -> tuple[Clause, int]:
    head = tokens[index]
    field = _field(head)
    op_token = _need(text, tokens, index + 1, f"an operator after {head.text}", "= != > >= < <= in notin")
    op = "=" if op_token.text == "==" else op_token.text
    if op_token.kind == "word" and op in ("in", "notin"):
        values, index = _list(text, tokens, index + 2, head.text, field)
    elif op_token.kind == "op":
        if op not in _EQUAL_ONLY and field.kind not in _ORDERED:
            raise BadFilter(op_token.start, f"{head.text} has no order", expected="= != in notin")
        token = _need(text, tokens, index + 2, f"a value for {head.text}", _expected(field))
        values, index = (_value(token, head.text, field),), index + 3
    else:
        raise BadFilter(op_token.start, f"an operator is missing after {head.text}", expected="= != > >= < <= in notin")
    return Clause(head.text, op, values, text[head.start : tokens[index - 1].end].strip()), index


def _need(text: str, tokens: list[_Token], index: int, what: str, expected: str) -> _Token:
    if index >= len(tokens):
        raise BadFilter(len(text), f"{what} is missing", expected=expected)
    return tokens[index]


def _field(token: _Token) -> Field:
    if token.kind != "word" or token.text not in FIELDS:
        near = get_close_matches(token.text.lower(), FIELDS, n=1, cutoff=0.65)
        raise BadFilter(token.start, f"there is no field {token.text}", nearest=near[0] if near else None)
    return FIELDS[token.text]


def _list(text: str, tokens: list[_Token], index: int, name: str, field: Field) -> tuple[tuple[Value, ...], int]:
    opening = _need(text, tokens, index, "a list", "[a,b]")
    if opening.kind != "open":
        raise BadFilter(opening.start, "a list begins with [", expected="[a,b]")
    values: list[Value] = []
    index += 1
    while True:
        token = _need(text, tokens, index, "the end of the list", "]")
        values.append(_value(token, name, field))
        mark = _need(text, tokens, index + 1, "the end of the list", ", or ]")
        index += 2
        if mark.kind == "close":
            return tuple(values), index
        if mark.kind != "comma":
            raise BadFilter(mark.start, "values of a list are separated by commas", expected=", or ]")
        if len(values) >= MOST_VALUES:
            raise BadFilter(mark.start, f"at most {MOST_VALUES} values")


def _expected(field: Field) -> str:
    if field.kind is Kind.NUMBER:
        units = " ".join(unit for unit in field.units if unit)
        return f"a number{f' (units: {units})' if units else ''}: {field.words}"
    if field.kind is Kind.TRUTH:
        return "true or false"
    if field.kind is Kind.VERSION:
        return "a version such as 3.11"
    return f'a word or "text": {field.words}'


def _value(token: _Token, name: str, field: Field) -> Value:
    if token.kind not in ("word", "text"):
        raise BadFilter(token.start, f"a value for {name} is missing", expected=_expected(field))
    if field.kind is Kind.TRUTH:
        if token.text not in ("true", "false"):
            raise BadFilter(token.start, f"{name} is true or false", expected="true or false")
        return token.text == "true"
    if field.kind is Kind.NUMBER:
        return _number_of(token, name, field)
    if field.kind is Kind.VERSION:
        if not _VERSION.fullmatch(token.text):
            raise BadFilter(token.start, f"{token.text} is no version", expected=_expected(field))
        return tuple(int(part) for part in token.text.split("."))
    return fold(token.text)


def _number_of(token: _Token, name: str, field: Field) -> Fraction:
    found = _NUMBER.fullmatch(token.text)
    if found is None:
        raise BadFilter(token.start, f"{name} is a number, not {token.text}", expected=_expected(field))
    if found[2] not in field.units:
        raise BadFilter(token.start + len(found[1]), f"{name} has no unit {found[2]}", expected=_expected(field))
    return Fraction(found[1]) * field.units[found[2]]


@dataclass(frozen=True)
class Key:
    """One key of an order."""

    field: str
    down: bool


def parse_order(words: Sequence[str]) -> tuple[Key, ...]:
    """``["scu_per_price-", "dph"]`` as keys: up, or with a hyphen behind down; at most three."""
    keys: list[Key] = []
    for word in words:
        down = word.endswith("-")
        name = word.removesuffix("-")
        if name not in FIELDS:
            near = get_close_matches(name.lower(), FIELDS, n=1, cutoff=0.65)
            raise BadFilter(0, f"there is no field {name} to sort by", nearest=near[0] if near else None)
        keys.append(Key(name, down))
    if len(keys) > MOST_KEYS:
        raise BadFilter(0, f"at most {MOST_KEYS} keys")
    return tuple(keys)


def ordered(rows: Sequence[Row], keys: Sequence[Key]) -> list[Row]:
    """By the keys, unknown values last either way, ties by id."""
    result = sorted(rows, key=lambda row: str(row["id"]))
    for key in reversed(keys):
        known = [row for row in result if row.get(key.field) is not None]
        unknown = [row for row in result if row.get(key.field) is None]
        # Sorting is stable and `reverse` keeps equals in their order: ties stay by id either way.
        known.sort(key=lambda row, name=key.field: _sortable(row[name]), reverse=key.down)  # type: ignore[misc]
        result = known + unknown
    return result


def _sortable(value: Any) -> Any:
    if isinstance(value, list | tuple | set | frozenset) and not (value and all(isinstance(v, int) for v in value)):
        return sorted(fold(word) for word in value)
    return fold(value) if isinstance(value, str) else value


@dataclass(frozen=True)
class Found:
    """Rows that fulfil everything, and what the defaults and each clause hide."""

    rows: tuple[Row, ...]
    hidden: Mapping[str, int]
    relax: tuple[tuple[str, int], ...]


def search(rows: Sequence[Row], clauses: Sequence[Clause], defaults: Mapping[str, Callable[[Row], bool]]) -> Found:
    """Filter `rows`. `hidden`: what each default alone takes away; `relax` (only if nothing is left): what dropping
    each clause or default alone would give.
    """
    tests: list[tuple[str, Callable[[Row], bool]]] = [(clause.text, clause.holds) for clause in clauses]
    tests += list(defaults.items())
    gained = dict.fromkeys(range(len(tests)), 0)
    kept: list[Row] = []
    for row in rows:
        failed = [index for index, (_text, holds) in enumerate(tests) if not holds(row)]
        if not failed:
            kept.append(row)
        elif len(failed) == 1:
            gained[failed[0]] += 1
    first = len(clauses)
    hidden = {name: gained[first + index] for index, name in enumerate(defaults)}
    relax = () if kept else tuple((text, gained[index]) for index, (text, _holds) in enumerate(tests))
    return Found(tuple(kept), hidden, relax)
