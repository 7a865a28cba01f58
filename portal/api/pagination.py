"""Lists: newest first, `limit` 1–200 (50), an opaque `cursor`, `next_cursor` null at the end; stable while rows are
added.

The cursor names the last row that was shown by its position in the order, so new rows (which come before it) move
nothing::

    class Jobs(APIView):
        def get(self, request):
            return CursorPage.answer(request, selectors.for_organisation(org), JobOut)

Rows are ordered by primary key, downwards: it grows with time and is unique.
"""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _
from rest_framework.response import Response

from portal.kit.errors import BadRequest, Finding, InvalidInput

DEFAULT_LIMIT = 50
MAX_LIMIT = 200


def limit_of(request: Any) -> int:
    """`limit` of the query, 1–200; 422 otherwise."""
    text = request.query_params.get("limit", "")
    if not text:
        return DEFAULT_LIMIT
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MAX_LIMIT:
        raise InvalidInput([Finding("limit", "out_of_range", _("a whole number from 1 to 200"), "limit=50")])
    return int(text)


def write_cursor(position: Any) -> str:
    """Opaque text for a JSON position."""
    return base64.urlsafe_b64encode(json.dumps(position, separators=(",", ":")).encode()).decode().rstrip("=")


def read_cursor(text: str) -> Any:
    """The position of a cursor of ours; 400 `bad_cursor` for anything else."""
    try:
        return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, binascii.Error, UnicodeDecodeError):
        raise BadRequest(_("This cursor was not made by us: begin again without it."), code="bad_cursor") from None


class CursorPage:
    """One page of a query set, newest first."""

    def __init__(self, rows: Sequence[Any], next_cursor: str | None) -> None:
        self.rows = rows
        self.next_cursor = next_cursor

    @classmethod
    def of(cls, request: Any, queryset: QuerySet[Any]) -> "CursorPage":
        """The page that the request asks for."""
        limit = limit_of(request)
        text = request.query_params.get("cursor", "")
        queryset = queryset.order_by("-pk")
        if text:
            position = read_cursor(text)
            if isinstance(position, bool) or not isinstance(position, int) or not 0 < position < 2**63:
                raise BadRequest(_("This cursor was not made by us: begin again without it."), code="bad_cursor")
            queryset = queryset.filter(pk__lt=position)
        rows = list(queryset[: limit + 1])
        more = len(rows) > limit
        return cls(rows[:limit], write_cursor(rows[limit - 1].pk) if more else None)

    @classmethod
    def answer(cls, request: Any, queryset: QuerySet[Any], show: Callable[[Any], Any]) -> Response:
        """``{"items": [show(row) …], "next_cursor": …}``."""
        page = cls.of(request, queryset)
        return Response({"items": [show(row) for row in page.rows], "next_cursor": page.next_cursor})


def slice_of(request: Any, rows: Sequence[Any], show: Callable[[Any], Any], **beside: Any) -> Response:
    """A page of a computed, ordered list (offers in a chosen order): the cursor is the number of rows already shown."""
    limit = limit_of(request)
    text = request.query_params.get("cursor", "")
    start = read_cursor(text) if text else 0
    if isinstance(start, bool) or not isinstance(start, int) or start < 0:
        raise BadRequest(_("This cursor was not made by us: begin again without it."), code="bad_cursor")
    end = start + limit
    return Response(
        {
            "items": [show(row) for row in rows[start:end]],
            "next_cursor": write_cursor(end) if end < len(rows) else None,
            **beside,
        }
    )
