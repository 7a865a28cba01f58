"""Post to the ledger, once per key. The database refuses what does not balance; see ``migrations/0002_guards``."""

from collections.abc import Iterable
from datetime import datetime

from django.db import connection

from billing.domain.ledger import NEVER_BELOW_ZERO, AccountKind, Posting
from billing.models import Account, Entry, Txn
from portal.kit.errors import Conflict


def account(*, owner: str, kind: AccountKind, currency: str) -> Account:
    """That account, opened at 0 if there was none."""
    Account.objects.bulk_create(
        [Account(owner=owner, kind=kind.value, currency=currency, allow_negative=kind not in NEVER_BELOW_ZERO)],
        ignore_conflicts=True,
    )
    return Account.objects.get(owner=owner, kind=kind.value, currency=currency)


def locked(*, owner: str, kind: AccountKind, currency: str) -> Account:
    """That account under a row lock until the transaction ends: reserve first, then read."""
    account(owner=owner, kind=kind, currency=currency)
    return Account.objects.select_for_update().get(owner=owner, kind=kind.value, currency=currency)


def locked_in_order(wanted: Iterable[tuple[str, AccountKind]], *, currency: str) -> dict[tuple[str, AccountKind], int]:
    """Several accounts under row locks, taken in account order as :func:`post` takes them, so no two ever wait for each other in a ring; their balances."""
    ids = {account(owner=owner, kind=kind, currency=currency).id: (owner, kind) for owner, kind in wanted}
    rows = Account.objects.select_for_update().filter(id__in=list(ids)).order_by("id")
    return {ids[row.id]: row.balance_minor for row in rows}


def post(*, kind: str, key: str, posting: Posting, reference: str, now: datetime) -> Txn | None:
    """Post once: the same key and body again is the same posting, the same key with another body is a Conflict. An empty posting is none.

    A posting that the database rejects leaves no key behind, for it rolls back with the caller's transaction.
    """
    if not posting.legs:
        return None
    accounts = {leg: account(owner=leg.owner, kind=leg.kind, currency=posting.currency) for leg in posting.legs}
    body = posting.body_hash()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO billing_txn (kind, idem_key, body_hash, currency, reference, at) VALUES (%s, %s, %s, %s, %s, %s)"
            " ON CONFLICT (idem_key) DO NOTHING RETURNING id",
            [kind, key, body, posting.currency, reference, now],
        )
        made = cursor.fetchone()
    if made is None:
        txn = Txn.objects.get(idem_key=key)
        if txn.body_hash != body:
            raise Conflict(f"posting {key} was made already with other entries", code="posting_mismatch")
        return txn
    txn = Txn.objects.get(id=made[0])
    for leg in sorted(posting.legs, key=lambda leg: accounts[leg].id):  # in account order: no deadlocks
        Entry.objects.create(txn=txn, account=accounts[leg], currency=posting.currency, amount_minor=leg.amount_minor)
    return txn


def known(*, key: str, posting: Posting) -> bool:
    """Whether that posting was made already; a Conflict if its key was used for another."""
    body = Txn.objects.filter(idem_key=key).values_list("body_hash", flat=True).first()
    if body is not None and body != posting.body_hash():
        raise Conflict(f"posting {key} was made already with other entries", code="posting_mismatch")
    return body is not None
