"""The one error tree of the house (rule 16).

::

    IdlewildError                code                 HTTP
    ├── BadRequest               bad_request          400   cannot be read at all
    ├── NotSignedIn              not_signed_in        401
    ├── SpendingRefused          spending_refused     402   limit, balance or budget
    ├── Forbidden                forbidden            403   a member without the deed
    ├── NotFound                 not_found            404   absent, or somebody else's
    ├── Conflict                 conflict             409   state, idempotency, quote_expired …
    │   └── InvalidTransition    invalid_transition   409   the machine has no such arrow; nothing changed
    ├── StaleFence               fenced               410   a newer attempt exists: stop at once
    ├── PreconditionFailed       precondition_failed  412   If-Match
    ├── TooLarge                 too_large            413
    ├── InvalidInput             invalid_input        422   shape; carries every finding
    ├── UpgradeRequired          upgrade_required     426   the wire version
    ├── TooMany                  rate_limited         429   retry_after seconds
    └── Unavailable              unavailable          503   retry_after seconds

``detail`` is a sentence that says what to do next. ``code`` is stable and may be narrowed by the raiser
(``code="quote_expired"``).
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One fault of an input: where (`path`, dotted), which (`code`, stable), what (`message`) and how to mend it
    (`hint`).
    """

    path: str
    code: str
    message: str
    hint: str = ""
    line: int | None = None
    column: int | None = None


class IdlewildError(Exception):
    """Base of all errors that people or programs outside may see."""

    code = "error"
    status = 500

    def __init__(self, detail: str, *, code: str | None = None, **extra: object) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code or type(self).code
        self.extra = extra


class BadRequest(IdlewildError):
    code, status = "bad_request", 400


class NotSignedIn(IdlewildError):
    code, status = "not_signed_in", 401


class SpendingRefused(IdlewildError):
    code, status = "spending_refused", 402


class Forbidden(IdlewildError):
    code, status = "forbidden", 403


class NotFound(IdlewildError):
    code, status = "not_found", 404


class Conflict(IdlewildError):
    code, status = "conflict", 409


class InvalidTransition(Conflict):
    code = "invalid_transition"


class StaleFence(IdlewildError):
    code, status = "fenced", 410


class PreconditionFailed(IdlewildError):
    code, status = "precondition_failed", 412


class TooLarge(IdlewildError):
    code, status = "too_large", 413


class InvalidInput(IdlewildError):
    """422 with every finding (at most 100), by path."""

    code, status = "invalid_input", 422

    def __init__(self, errors: Sequence[Finding], detail: str = "", *, code: str | None = None) -> None:
        self.errors = tuple(errors)[:100]
        super().__init__(detail or "; ".join(f"{e.path}: {e.message}" for e in self.errors[:3]), code=code)


class UpgradeRequired(IdlewildError):
    code, status = "upgrade_required", 426


class TooMany(IdlewildError):
    code, status = "rate_limited", 429


class Unavailable(IdlewildError):
    code, status = "unavailable", 503
