"""Long lists in pages: fifty rows, newest first; the address names where the next page begins."""

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _

from portal.api.pagination import read_cursor, write_cursor
from portal.kit.errors import BadRequest

ROWS = 50


def page_of(request: HttpRequest, rows: QuerySet[Any], size: int = ROWS) -> tuple[list[Any], str]:
    """The rows of this page and the cursor of the next one ("" at the end)."""
    text = request.GET.get("cursor", "")
    rows = rows.order_by("-pk")
    if text:
        position = read_cursor(text)
        if isinstance(position, bool) or not isinstance(position, int):
            raise BadRequest(_("This address was not made by us: begin again without its cursor."), code="bad_cursor")
        rows = rows.filter(pk__lt=position)
    found = list(rows[: size + 1])
    return found[:size], write_cursor(found[size - 1].pk) if len(found) > size else ""
