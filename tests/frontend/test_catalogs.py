"""Both languages are complete: no string without a text, none fuzzy, none unknown; gaps of a sentence stay the same."""

import re
import string

import pytest

from frontend import catalogs

GAP = re.compile(r"%\(\w+\)[sd]|%%")
CJK = re.compile(r"[\u4e00-\u9fff]")
SAME_IN_BOTH = re.compile(r"[A-Za-z0-9 .:/%(){}_,×=·-]*")


@pytest.fixture(scope="module")
def chinese():  # type: ignore[no-untyped-def]
    return catalogs.stored()


def test_the_chinese_catalog_is_complete(chinese) -> None:  # type: ignore[no-untyped-def]
    assert catalogs.gaps(chinese) == []


def test_gaps_of_a_sentence_are_the_same_in_both_languages(chinese) -> None:  # type: ignore[no-untyped-def]
    wrong = []
    for message in chinese:
        if not message.id:
            continue
        source = message.id[-1] if isinstance(message.id, tuple) else message.id
        for text in message.string if isinstance(message.string, tuple | list) else [message.string]:
            if sorted(GAP.findall(source)) != sorted(GAP.findall(text)) or braces(source) != braces(text):
                wrong.append((source, text))
    assert wrong == []


def braces(text: str) -> list[str]:
    return (
        sorted(name for _text, name, _spec, _conversion in string.Formatter().parse(text) if name)
        if "{" in text
        else []
    )


UNITS = {"", "Mbit/s", "SCU"}  # the same in every language


def test_a_chinese_text_is_chinese(chinese) -> None:  # type: ignore[no-untyped-def]
    english = [
        message.id
        for message in chinese
        if message.id and isinstance(message.string, str) and not CJK.search(message.string) and len(message.string.split()) > 1
        and GAP.sub("", message.string).strip(" :/{}") not in UNITS and not re.fullmatch(r"\d+s.*", message.string)
    ]  # fmt: skip
    assert english == []
