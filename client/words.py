"""The client's own small catalogue: English sentences and their Chinese.

English is the source: `t("Cancelled {id}.", id=…)` looks the sentence up and fills its gaps. `N_` only marks a
sentence that is looked up later (help texts, which are written before the language is known). A test reads all
sources and wants each marked sentence here.
"""

from __future__ import annotations

from .chinese import CATALOGUE

_chosen = "en"


def N_(sentence: str) -> str:  # noqa: N802 the usual name of this mark
    return sentence


def language() -> str:
    return _chosen


def set_language(word: str) -> bool:
    """`en`, `zh`, or a locale's name such as `zh_CN.UTF-8`; anything else is English, and False."""
    global _chosen
    short = word.replace("-", "_").split("_")[0].split(".")[0].lower()
    _chosen = short if short in {"en", "zh"} else "en"
    return short in {"en", "zh"}


def t(sentence: str, **gaps: object) -> str:
    """The sentence in the chosen language, its gaps filled."""
    found = CATALOGUE.get(sentence, sentence) if _chosen == "zh" else sentence
    return found.format(**gaps) if gaps else found
