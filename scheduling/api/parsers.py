"""JSON as it was written: a number with a point stays text, so an amount never passes through a float."""

import codecs
import json
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

from portal.api.parsers import checked
from portal.kit.errors import TooLarge
from scheduling.domain.spec_document import MOST_BYTES, NumberText

MOST_BODY = MOST_BYTES + 64 * 1024
"""A spec of 1 MiB and what stands around it."""


class ExactJSONParser(JSONParser):
    """DRF's parser with exact numbers, a limit of size, and refusal of NaN and Infinity."""

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None) -> Any:
        raw = stream.read(MOST_BODY + 1)
        if len(raw) > MOST_BODY:
            raise TooLarge(_("A job spec has at most 1 MiB. Put data into inputs."), code="spec_too_large")
        try:
            text = codecs.decode(raw, "utf-8")
            return checked(json.loads(text, parse_float=NumberText, parse_constant=_refuse))
        except (ValueError, RecursionError) as error:
            raise ParseError(f"JSON parse error - {error}") from None


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not a number")
