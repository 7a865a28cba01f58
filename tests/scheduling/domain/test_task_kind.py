"""The kind of a job: what people wrote down before the rule, and the order of evidence."""

from collections import Counter

import pytest

from scheduling.domain.demand import TaskType
from scheduling.domain.task_kind import DEFAULTS, TABLES, guess
from tests.reference import CASES

LABELS = [
    tuple(line.split("\t"))
    for line in (CASES / "task_kinds.tsv").read_text().splitlines()
    if line and not line.startswith("#")
]


def test_at_least_nine_of_ten_labels_are_met():
    wrong = []
    for kind, image, run in LABELS:
        made = guess(image="" if image == "-" else image, run=run)
        if made.kind != kind:
            wrong.append(f"{kind:<11} guessed {made.kind:<11} ({made.found}): {image} {run}")
    assert len(LABELS) >= 150
    assert len(wrong) <= len(LABELS) // 10, "\n".join(wrong)
