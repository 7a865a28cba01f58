"""The catalogs of the product's two languages, made with Babel alone: no GNU gettext anywhere.

::

    python -m frontend.catalogs update    extract every string of the server, merge it into the Chinese catalog
    python -m frontend.catalogs check     say what is missing, fuzzy or no longer used (exit code 1)

English is the source language, so only `zh_Hans` has texts. `./dev up` compiles (`pybabel compile`); `*.mo` is not committed.
"""

import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import IO, Any

from babel.messages.catalog import Catalog
from babel.messages.extract import extract, extract_python
from babel.messages.pofile import read_po, write_po
from django.utils.translation.template import templatize

ROOT = Path(__file__).resolve().parent.parent
CATALOG = ROOT / "frontend" / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.po"
PACKAGES = ("frontend", "portal", "scheduling", "billing", "marketplace")
SKIPPED = frozenset({"node_modules", "dist", "migrations", "__pycache__"})
KEYWORDS: dict[str, Any] = {
    "_": None,
    "N_": None,
    "gettext": None,
    "gettext_lazy": None,
    "gettext_noop": None,
    "ngettext": (1, 2),
    "ngettext_lazy": (1, 2),
    "pgettext": ((1, "c"), 2),
    "pgettext_lazy": ((1, "c"), 2),
    "npgettext": ((1, "c"), 2, 3),
}
WIDTH = 120

Message = tuple[int, str, Any, list[str]]


def extract_template(source: IO[bytes], keywords: Any, comments: Any, options: Any) -> Iterator[Message]:
    """A Babel extraction method: Django turns a template into Python, Babel reads that."""
    python = templatize(source.read().decode())
    text = "\n".join(line.strip() for line in python.splitlines())
    return extract_python(BytesIO(text.encode()), keywords, comments, options)


def sources() -> Iterator[Path]:
    """Every template and module whose strings people may see."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*")):
            if path.suffix in (".py", ".html") and not SKIPPED & set(path.relative_to(ROOT).parts):
                yield path


def template() -> Catalog:
    """All strings of the product, with where they stand."""
    found = Catalog(project="Idlewild", charset="utf-8")
    for path in sources():
        method: Any = "python" if path.suffix == ".py" else extract_template
        with path.open("rb") as source:
            for _line, message, comments, context in extract(method, source, KEYWORDS, ("Translators:",), {}):
                place = (path.relative_to(ROOT).as_posix(), None)
                found.add(message, locations=[place], auto_comments=comments, context=context)
    return found


def stored() -> Catalog:
    """The Chinese catalog as it is committed."""
    if not CATALOG.exists():
        return Catalog(locale="zh_Hans", project="Idlewild", charset="utf-8")
    with CATALOG.open("rb") as source:
        return read_po(source, locale="zh_Hans")


def update() -> Catalog:
    """Merge the strings of today into the catalog; texts of strings that are gone go too."""
    catalog = stored()
    catalog.update(template(), no_fuzzy_matching=True, update_header_comment=False)
    catalog.obsolete.clear()
    CATALOG.parent.mkdir(parents=True, exist_ok=True)
    with CATALOG.open("wb") as target:
        write_po(target, catalog, width=WIDTH, sort_output=True, include_lineno=False, omit_header=False)
    return catalog


def gaps(catalog: Catalog | None = None) -> list[str]:
    """What is wrong with the catalog: strings without a text, fuzzy ones, strings it does not know."""
    catalog = catalog or stored()
    wrong = []
    for message in template():
        if not message.id:
            continue
        known = catalog.get(message.id, message.context)
        name = message.id if isinstance(message.id, str) else message.id[0]
        if known is None:
            wrong.append(f"unknown: {name}")
        elif known.fuzzy:
            wrong.append(f"fuzzy: {name}")
        elif not (all(known.string) if isinstance(known.string, tuple | list) else known.string):
            wrong.append(f"no text: {name}")
    return wrong


def main(arguments: list[str]) -> int:
    if arguments == ["update"]:
        update()
    elif arguments != ["check"]:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    wrong = gaps()
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
