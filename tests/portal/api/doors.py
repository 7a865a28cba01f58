"""Every door of /api/v1, walked out of the URL table, so that a new one is tested by being there."""

import re
from dataclasses import dataclass
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

PLACEHOLDERS = {
    "slug": "nothing-there",
    "deed": "",
    "user": "usr_0",
    "public_id": "nothing",
    "token": "nothing",
    "number": "1",
    "n": "1",
    "month": "2026-10",
}


@dataclass(frozen=True)
class Door:
    """One view at one address."""

    path: str
    view: Any
    methods: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.view.__module__}.{self.view.__qualname__}"


def doors() -> list[Door]:
    """All class-based REST views below /api/v1/, with an address that leads to nothing."""
    found: list[Door] = []
    _walk(get_resolver("portal.api_urls").url_patterns, "/api/v1/", found)
    return found


def _walk(patterns: Any, prefix: str, found: list[Door]) -> None:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            _walk(pattern.url_patterns, prefix + _example(str(pattern.pattern)), found)
        elif isinstance(pattern, URLPattern):
            view = getattr(pattern.callback, "cls", None)
            if view is None or view.__module__.startswith("drf_spectacular"):
                continue
            methods = tuple(m for m in ("get", "post", "patch", "put", "delete") if hasattr(view, m))
            found.append(Door(prefix + _example(str(pattern.pattern)), view, methods))


def _example(pattern: str) -> str:
    """A path that the pattern matches: converters and named groups filled in."""

    def fill(match: re.Match[str]) -> str:
        return "1" if match[1].startswith("int") else PLACEHOLDERS.get(match[1].split(":")[-1], "nothing")

    text = re.sub(r"<([^>]+)>", fill, pattern) if "(?P" not in pattern else _regex(pattern)
    return text


def _regex(pattern: str) -> str:
    text = pattern.removeprefix("^").removesuffix("$").removesuffix("\\Z")

    def fill(match: re.Match[str]) -> str:
        name, inner = match[1], match[2]
        if "|" in inner:
            return inner.split("|")[0]
        if name not in PLACEHOLDERS and re.fullmatch(r"\\d\S*|\[0-9\]\S*", inner):
            return "1"
        return PLACEHOLDERS.get(name) or "nothing"

    text = re.sub(r"\(\?P<(\w+)>([^()]*)\)", fill, text)
    return text.replace("\\.", ".").replace("\\", "")
