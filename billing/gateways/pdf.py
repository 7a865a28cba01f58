"""Invoices as PDF, by typst: same data, same bytes.

Traps: a missing font compiles without an error and loses the Chinese, so every warning is a failure and the font is looked for at the start; without
the document's date the bytes hold the wall clock. Data goes in as JSON only, so a name can contain anything and prints literally.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typst
from django.conf import settings

FAMILY = "WenQuanYi Micro Hei"
TEMPLATES = Path(__file__).resolve().parent / "templates"
UNDRAWABLE = re.compile(r'the text `"(.+?)"` could not be displayed', re.DOTALL)
ESCAPED = re.compile(r"\\u\{([0-9a-f]+)\}")
MOST_UNKNOWN = 100
DEBIAN = Path("/usr/share/fonts/truetype/wqy")


class NoFont(RuntimeError):
    """The font with Chinese characters was found nowhere: say so at the start, not on a blank page."""


class BadTemplate(RuntimeError):
    """The template compiled with warnings, or not at all."""


def render(document: Mapping[str, Any], words: Mapping[str, str], *, template: int) -> bytes:
    """The PDF (PDF/A-3b) of an invoice document in the language of `words`.

    An archive document may not hold what its font cannot draw (an emoji in a name, a rare character): each such text prints as □.
    """
    return _drawn((TEMPLATES / f"invoice-{template}.typ").read_bytes(), {"doc": document, "w": words})


def render_sheet(document: Mapping[str, Any]) -> bytes:
    """The PDF (PDF/A-3b) of a short document: title, number, date, issuer, pairs, header, rows, sums; all of it text."""
    return _drawn((TEMPLATES / "sheet-1.typ").read_bytes(), {"doc": document})


def _drawn(source: bytes, data: Any) -> bytes:
    for _ in range(MOST_UNKNOWN):
        try:
            return _compile(source, data)
        except typst.TypstError as problem:
            unknown = UNDRAWABLE.search(problem.message)
            if unknown is None:
                raise BadTemplate(problem.message) from None
            data = _without(data, ESCAPED.sub(lambda code: chr(int(code[1], 16)), unknown[1]))
    raise BadTemplate(f"more than {MOST_UNKNOWN} characters cannot be drawn")


def _compile(source: bytes, data: Any) -> bytes:
    pdf, warnings = typst.compile_with_warnings(  # type: ignore[misc]  # its stub cannot tell bytes
        source,
        font_paths=[str(font_folder())],
        ignore_system_fonts=True,
        sys_inputs={"data": json.dumps(data, ensure_ascii=False, sort_keys=True)},
        pdf_standards=["a-3b"],
    )
    if warnings:
        raise BadTemplate("; ".join(str(warning) for warning in warnings))
    return bytes(pdf)


def _without(data: Any, text: str) -> Any:
    """`data` with every occurrence of `text` as □."""
    if isinstance(data, str):
        return data.replace(text, "□")
    if isinstance(data, Mapping):
        return {key: _without(value, text) for key, value in data.items()}
    return [_without(value, text) for value in data] if isinstance(data, list) else data


@cache
def font_folder() -> Path:
    """The first folder that really has the font: IDLEWILD_FONT_DIR, the wheel's, Debian's. NoFont says what to do."""
    for folder in _candidates():
        if folder.is_dir() and FAMILY in typst.Fonts(include_system_fonts=False, font_paths=[str(folder)]).families():
            return folder
    raise NoFont(
        f"the font {FAMILY} is missing: install the wheel paperang-p2-fonts-cjk (extra 'fonts') or Debian's fonts-wqy-microhei, "
        "or set IDLEWILD_FONT_DIR"
    )


def _candidates() -> list[Path]:
    wheel = find_spec("paperang_p2_fonts_cjk")
    found = [Path(settings.IDLEWILD_FONT_DIR)] if settings.IDLEWILD_FONT_DIR else []
    if wheel is not None and wheel.submodule_search_locations:
        found.append(Path(next(iter(wheel.submodule_search_locations))) / "fonts")
    return [*found, DEBIAN]
