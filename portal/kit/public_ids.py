"""The shape of public ids: a prefix that names the kind, then 26 sortable characters.

Pure: randomness and time are arguments (``portal.ids`` supplies them).
"""

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's base 32: no I, L, O, U."""

KINDS = {
    "usr": "user",
    "org": "organisation",
    "prj": "project",
    "key": "API key",
    "sec": "secret",
    "ivt": "invitation",
    "nod": "node",
    "enr": "enrolment token",
    "fgp": "fingerprint",
    "run": "checked run of a fingerprint",
    "ofr": "offer",
    "prv": "price version",
    "ref": "reference price",
    "job": "job",
    "tsk": "task",
    "att": "attempt",
    "lse": "lease",
    "quo": "quote",
    "dec": "placement decision",
    "art": "artefact",
    "chk": "checkpoint",
    "whk": "webhook endpoint",
    "whd": "webhook delivery",
    "inv": "invoice",
    "imp": "usage import",
    "alc": "allocation rule",
    "fap": "fapiao request",
    "hld": "hold",
    "crg": "credit grant",
    "hrg": "grant of hours",
    "bdg": "budget",
    "cnt": "credit note",
    "btr": "bank transfer",
    "pay": "payment",
    "hpg": "hosted page",
    "rfd": "refund",
    "pyo": "payout",
    "txn": "ledger entry",
    "msg": "outbox message",
    "evt": "event",
    "aud": "audit event",
}


def compose(prefix: str, milliseconds: int, noise: int) -> str:
    """`prefix` + ``_`` + 10 characters of time (48 bits) + 16 of noise (80 bits).

    Raises ValueError for an unknown prefix or a value that does not fit.
    """
    if prefix not in KINDS:
        raise ValueError(f"unknown id prefix {prefix!r}")
    if not 0 <= milliseconds < 1 << 48 or not 0 <= noise < 1 << 80:
        raise ValueError("time or noise out of range")
    return f"{prefix}_{_base32(milliseconds, 10)}{_base32(noise, 16)}"


def parse(prefix: str, text: str) -> str:
    """`text` if it is a well-formed id of that kind, else ValueError that says what was expected."""
    head, _, tail = text.partition("_")
    if head != prefix or len(tail) != 26 or any(letter not in ALPHABET for letter in tail):
        raise ValueError(f"expected a {KINDS[prefix]} id such as {prefix}_{'0' * 26}")
    return text


def _base32(value: int, width: int) -> str:
    digits = []
    for _ in range(width):
        value, digit = divmod(value, 32)
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))
