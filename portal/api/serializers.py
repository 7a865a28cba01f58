"""Shapes at the door: strict input, and the ETag of what was shown."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from rest_framework import serializers
from rest_framework.response import Response

from portal.kit.errors import PreconditionFailed


class Strict(serializers.Serializer):
    """Input that refuses fields it does not know, so that a misspelt one is not silently nothing."""

    default_error_messages = {"unknown": gettext_lazy("there is no such field; known are {known}")}

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            strange = [name for name in data if name not in self.fields]
            if strange:
                known = ", ".join(sorted(self.fields))
                message = self.error_messages["unknown"].format(known=known)
                raise serializers.ValidationError(
                    {str(name): [serializers.ErrorDetail(message, code="unknown_field")] for name in strange}
                )
        return super().to_internal_value(data)


class Empty(Strict):
    """No body, or an empty one."""


def parsed(kind: type[serializers.Serializer[Any]], request: Any, **context: Any) -> dict[str, Any]:
    """The body of `request` as `kind` reads it; ValidationError (422) with every finding."""
    shape = kind(data=request.data if request.data is not None else {}, context={"request": request, **context})
    shape.is_valid(raise_exception=True)
    return dict(shape.validated_data)


def queried(kind: type[serializers.Serializer[Any]], request: Any) -> dict[str, Any]:
    """The query of `request`, `limit` and `cursor` left to the pagination."""
    given = {name: value for name, value in request.query_params.items() if name not in ("limit", "cursor", "format")}
    shape = kind(data=given, context={"request": request})
    shape.is_valid(raise_exception=True)
    return dict(shape.validated_data)


def etag(shown: Any) -> str:
    """A strong tag of what a GET shows."""
    text = json.dumps(shown, sort_keys=True, default=str)
    return '"' + hashlib.sha256(text.encode()).hexdigest()[:24] + '"'


def demand_match(request: Any, shown: Any) -> None:
    """PATCH needs If-Match with the tag of what the caller saw; 412 when missing or outdated."""
    given = request.headers.get("If-Match")
    if given is None:
        raise PreconditionFailed(
            _("Send If-Match with the ETag that GET gave you, so that nobody's change is lost."),
            code="if_match_missing",
        )
    if etag(shown) not in [tag.strip() for tag in given.split(",")] and given.strip() != "*":
        raise PreconditionFailed(_("It was changed meanwhile. Read it again, then repeat your change."))


def tagged(shown: Any, status: int = 200) -> Response:
    """An answer with its ETag."""
    return Response(shown, status=status, headers={"ETag": etag(shown)})
