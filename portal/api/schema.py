"""OpenAPI.

Every operation declares the problem bodies it may answer (drf-spectacular runs `declare_problems` last; settings name
it).
"""

from typing import Any

from drf_spectacular.utils import inline_serializer
from rest_framework import serializers

PROBLEM = {
    "type": "object",
    "description": "An error of RFC 9457 (problem+json). `code` is stable, `detail` says what to do.",
    "required": ["type", "title", "status", "code", "detail", "request_id", "errors", "help"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "detail": {"type": "string"},
        "request_id": {"type": "string"},
        "help": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "code": {"type": "string"},
                    "message": {"type": "string"},
                    "hint": {"type": "string"},
                    "line": {"type": "integer"},
                    "column": {"type": "integer"},
                },
            },
        },
    },
}

ALWAYS = {
    "401": "Not signed in",
    "403": "A member without the deed",
    "404": "Absent, or somebody else's",
    "429": "Rate limit; Retry-After",
}
ON_WRITE = {"400": "Unparseable", "409": "State or idempotency", "422": "Shape; every finding in errors"}
ON_READ = {"400": "Bad cursor", "422": "Bad query"}
ON_PATCH = {"412": "If-Match missing or outdated"}

_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "maxLength": 200},
    "description": "The same key and request again: the stored answer, Idempotent-Replayed: true. Kept 30 days.",
}
_ORGANISATION = {
    "name": "X-Idlewild-Organisation",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "Slug of the organisation that is meant; default: the key's, or the first of the person.",
}
_MATCH = {
    "name": "If-Match",
    "in": "header",
    "required": True,
    "schema": {"type": "string"},
    "description": "The ETag that GET gave.",
}


_pages: dict[type, Any] = {}


def paged(shape: type[serializers.Serializer[Any]], **beside: serializers.Field[Any, Any, Any, Any]) -> Any:
    """The envelope of a list: ``items``, ``next_cursor`` and what else stands beside them. One per shape."""
    if shape not in _pages:
        _pages[shape] = _page(shape, beside)
    return _pages[shape]


def _page(shape: type[serializers.Serializer[Any]], beside: dict[str, Any]) -> Any:
    name = shape.__name__.removesuffix("Out") + "Page"
    fields = {"items": shape(many=True), "next_cursor": serializers.CharField(allow_null=True), **beside}
    return inline_serializer(name=name, fields=fields)


def declare_problems(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """The hook: error bodies and the headers that all operations share."""
    result.setdefault("components", {}).setdefault("schemas", {})["Problem"] = PROBLEM
    keyed = _keyed_operations(generator)
    for path, methods in result.get("paths", {}).items():
        for method, operation in methods.items():
            refusals = ALWAYS | (ON_READ if method == "get" else ON_WRITE) | (ON_PATCH if method == "patch" else {})
            if (path, method) in keyed:
                operation.setdefault("parameters", []).append(_KEY)
            if method == "patch":
                operation.setdefault("parameters", []).append(_MATCH)
            operation.setdefault("parameters", []).append(_ORGANISATION)
            for status, words in refusals.items():
                content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
                operation.setdefault("responses", {}).setdefault(status, {"description": words, "content": content})
    return result


def _keyed_operations(generator: Any) -> set[tuple[str, str]]:
    """(path, method) of the views whose `post` takes an Idempotency-Key."""
    endpoints = getattr(generator, "endpoints", None) or []
    keyed = set()
    for path, _regex, method, callback in endpoints:
        view = getattr(callback, "cls", None)
        if getattr(getattr(view, method.lower(), None), "is_idempotent", False):
            keyed.add((path, method.lower()))
    return keyed
