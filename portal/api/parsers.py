"""JSON at the door: what the framework's parser lets through and a database or a log does not take.

Three bodies broke a service instead of being refused: a thousand brackets (RecursionError), half a character written
as an escape (a lone surrogate, which no UTF-8 has) and a null character in a *name*, which no field's validator sees.
"""

import io
import re
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from rest_framework.parsers import JSONParser

from portal.kit.errors import BadRequest, TooLarge

MOST_BODY = 2 * 1024 * 1024
_HALF = re.compile("[\ud800-\udfff]")
_NOT_IN_NAMES = re.compile("[\x00\ud800-\udfff]")


class PlainJSON(JSONParser):
    """See the module."""

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None) -> Any:
        raw = stream.read(MOST_BODY + 1)  # the server keeps a body on disk: here it would become memory
        if len(raw) > MOST_BODY:
            raise TooLarge(_("The body has at most 2 MiB."))
        try:
            return checked(super().parse(io.BytesIO(raw), media_type, parser_context))
        except RecursionError:
            raise BadRequest(_("The body is nested too deeply.")) from None


def checked(data: Any) -> Any:
    """`data`, if it is text through and through; BadRequest otherwise."""
    if isinstance(data, str):
        if _HALF.search(data):
            raise BadRequest(_("The body holds half a character (a lone surrogate), which is no text."))
    elif isinstance(data, dict):
        for name, item in data.items():
            if _NOT_IN_NAMES.search(name):
                raise BadRequest(_("The name of a field holds a character that no text may hold."))
            checked(item)
    elif isinstance(data, list):
        for item in data:
            checked(item)
    return data
