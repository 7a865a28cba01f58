"""The client's error tree: each answer of the portal that is not a success becomes one of these.

::

    ClientError                       exit
    ├── Unreachable                   207   no answer in time; a submitted job goes on
    ├── LocalFault                    200   a file, a flag or an answer on this side cannot be used
    ├── NoCapacity                    203   nothing on the market fits; the refusals say why
    └── Refused                       209   the portal said no (problem+json)
        ├── BadSpec                   200   400, 413, 422: carries every finding
        ├── NotAllowed                201   401, 403
        ├── SpendingRefused           202   402
        ├── NotFound                  209   404: absent, or somebody else's
        ├── Conflict                  209   409, 412
        │   └── QuoteExpired          208   the quote is over, used, or its price is above the cap
        ├── TooMany                   209   429
        └── PortalFault               209   5xx

``exit`` is what the command returns (docs/reference/cli.md). The sentences come from the portal, in the language
asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any


class Exit(IntEnum):
    """What the command returns, besides 0 and the job's own code."""

    DONE = 0
    FLAGS = 2
    SPEC = 200
    NOT_ALLOWED = 201
    SPENDING = 202
    NO_CAPACITY = 203
    CANCELLED = 204
    LOST = 205
    TIME_LIMIT = 206
    UNREACHABLE = 207
    QUOTE = 208
    OTHER = 209


class ClientError(Exception):
    """Base: a code (stable), a sentence that says what to do, the exit code."""

    exit = Exit.OTHER
    code = "error"

    def __init__(self, detail: str, *, code: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code or type(self).code

    def as_json(self) -> dict[str, Any]:
        return {"code": self.code, "detail": self.detail}


class Unreachable(ClientError):
    exit, code = Exit.UNREACHABLE, "unreachable"


class LocalFault(ClientError):
    exit, code = Exit.SPEC, "local_fault"


class NoCapacity(ClientError):
    """Nothing fits; `refused` counts the reasons."""

    exit, code = Exit.NO_CAPACITY, "no_capacity"

    def __init__(self, detail: str, refused: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(detail)
        self.refused = list(refused)

    def as_json(self) -> dict[str, Any]:
        return {**super().as_json(), "refused": self.refused}


class Refused(ClientError):
    """The portal's own answer, whole in `body`."""

    def __init__(self, status: int, body: Mapping[str, Any], *, retry_after: float | None = None) -> None:
        detail = str(body.get("detail") or body.get("title") or f"HTTP {status}")
        super().__init__(detail, code=str(body.get("code") or f"http_{status}"))
        self.status = status
        self.body = dict(body)
        self.retry_after = retry_after
        errors = body.get("errors")
        self.errors: list[dict[str, Any]] = (
            [e for e in errors if isinstance(e, dict)] if isinstance(errors, list) else []
        )

    def as_json(self) -> dict[str, Any]:
        return {**self.body, "status": self.status, "code": self.code, "detail": self.detail}


class BadSpec(Refused):
    exit = Exit.SPEC


class NotAllowed(Refused):
    exit = Exit.NOT_ALLOWED


class SpendingRefused(Refused):
    exit = Exit.SPENDING


class NotFound(Refused):
    pass


class Conflict(Refused):
    pass


class QuoteExpired(Conflict):
    exit = Exit.QUOTE


class TooMany(Refused):
    pass


class PortalFault(Refused):
    pass


BY_STATUS: Mapping[int, type[Refused]] = {
    400: BadSpec,
    401: NotAllowed,
    402: SpendingRefused,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    412: Conflict,
    413: BadSpec,
    422: BadSpec,
    429: TooMany,
}
QUOTE_CODES = frozenset({"quote_expired", "quote_used", "quote_outdated", "price_over_max"})


def from_answer(status: int, body: Mapping[str, Any], *, retry_after: float | None = None) -> Refused:
    """The typed error of an answer with a status of 400 or more."""
    if body.get("code") in QUOTE_CODES:
        return QuoteExpired(status, body, retry_after=retry_after)
    kind = BY_STATUS.get(status, PortalFault if status >= 500 else Refused)
    return kind(status, body, retry_after=retry_after)
