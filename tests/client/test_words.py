"""Both languages are complete: every sentence in the sources has its Chinese, and nothing else is there."""

import ast
import re
from pathlib import Path

import pytest

from client import words
from client.chinese import CATALOGUE

FOLDER = Path(words.__file__).parent
GAP = re.compile(r"\{(\w+)")


def sentences() -> set[str]:
    found = set()
    for file in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            marked = (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in {"t", "N_"}
                and node.args
            )
            if marked and isinstance(node.args[0], ast.Constant):  # type: ignore[attr-defined]
                found.add(node.args[0].value)  # type: ignore[attr-defined]
    return found


def test_every_sentence_has_its_chinese() -> None:
    assert sentences() - set(CATALOGUE) == set()


def test_no_translation_is_left_over() -> None:
    assert set(CATALOGUE) - sentences() == set()


def test_translations_have_the_same_gaps_and_are_chinese() -> None:
    for english, chinese in CATALOGUE.items():
        assert sorted(GAP.findall(chinese)) == sorted(GAP.findall(english))
        assert re.search(r"[一-鿿：]", chinese), english


@pytest.mark.parametrize(
    ("word", "language", "known"),
    [
        ("zh_CN.UTF-8", "zh", True),
        ("zh-Hans", "zh", True),
        ("en", "en", True),
        ("C.UTF-8", "en", False),
        ("", "en", False),
    ],
)
def test_locales_choose_a_language(word: str, language: str, known: bool) -> None:
    assert words.set_language(word) is known
    assert words.language() == language
    words.set_language("en")
