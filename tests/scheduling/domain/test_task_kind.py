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


def test_each_kind_is_met_by_more_than_half():
    right = Counter(
        kind for kind, image, run in LABELS if guess(image="" if image == "-" else image, run=run).kind == kind
    )
    total = Counter(kind for kind, _, _ in LABELS)
    assert set(total) == set(TaskType) == set(DEFAULTS)
    assert all(2 * right[kind] > total[kind] for kind in total)


@pytest.mark.parametrize(
    ("given", "kind", "evidence", "found"),
    [
        ({"run": "torchrun x.py"}, "training", "program", "torchrun"),
        ({"run": "python x.py --epochs 3"}, "training", "flag", "epochs"),
        ({"run": "python my_train.py"}, "training", "word", "train"),
        ({"run": "python x.py", "image": "vllm/vllm-openai:v1"}, "inference", "image", "vllm"),
        ({"run": "./run.sh", "setup": "python preprocess.py"}, "data", "word", "preprocess"),
        ({"run": "python train.py", "past": ["render"]}, "render", "history", ""),
        ({"run": "restrain.sh"}, "custom", "none", ""),
        ({"run": "python train_predict.py"}, "custom", "none", ""),
        ({}, "custom", "none", ""),
    ],
)
def test_the_guess_says_why(given, kind, evidence, found):
    made = guess(**given)
    assert (made.kind, made.evidence, made.found) == (kind, evidence, found)
    assert made.form() == {"kind": kind, "evidence": evidence, "found": found, "sure": made.sure}
    assert made.sure == (evidence in ("program", "history"))


def test_words_of_one_table_name_one_kind():
    for name, _weight, table in TABLES:
        words = [word for known in table.values() for word in known]
        assert len(words) == len(set(words)), name
