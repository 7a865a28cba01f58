"""Each case that this version answers for (tests/cases/) is proved by a test that names it: `bill-…` ids of billing.yaml, P… of pains.md.

A test names a case by its id in its docstring or its name (`test_p34_…`), or by reading it (`case("bill-a1")`).
`python -m tests.test_cases` prints the table.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.sources import ROOT, python_files, tree

# Every case of billing.yaml; of pains.md those of the parts that are built.
PAINS = [
    f"P{n}"
    for n in (
        1,
        2,
        3,
        6,
        7,
        8,
        12,
        *range(14, 17),
        *range(18, 23),
        24,
        *range(27, 30),
        *range(31, 39),
        41,
        42,
        44,
        46,
        48,
    )
]
# P37 is refused at five doors; each has a test of its own.
DOORS_OF_P37 = {
    "API": "tests/marketplace/api/test_rest.py",
    "CLI": "tests/client/test_live_market.py",
    "import": "tests/marketplace/selectors/test_offers.py",
    "admin": "tests/marketplace/test_admin.py",
    "raw SQL": "tests/billing/models/test_guards.py",
}


def billing_cases() -> list[str]:
    """Ids in the order of the file."""
    rows = yaml.safe_load((ROOT / "tests/cases/billing.yaml").read_text())["cases"]
    return [row["id"] for row in rows]


def named(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The ids that a test names."""
    ids = {f"P{number}" for number in re.findall(r"(?<=_)p(\d+)(?=_)", function.name)}
    ids |= set(re.findall(r"\bP\d+\b", ast.get_docstring(function) or ""))
    for node in ast.walk(function):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            ids |= set(re.findall(r"\bbill-[a-z]+\d+\b", node.value))
    return ids


def proofs() -> dict[str, list[str]]:
    """Id → the tests that name it."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in _test_files():
        for function in _tests(path):
            for name in named(function):
                found[name].append(f"{path}::{function.name}")
    return found


def _test_files() -> list[Path]:
    here = Path("tests/test_cases.py")
    return [path for path in python_files("tests") if path.name.startswith("test_") and path != here]


def _tests(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node


def test_every_case_of_this_version_is_proved() -> None:
    there = proofs()
    wanted = [*billing_cases(), *PAINS]
    assert [name for name in wanted if name not in there] == [], "no test names this case"


def test_the_cases_named_exist() -> None:
    pains = set(re.findall(r"^\| (P\d+) \|", (ROOT / "tests/cases/pains.md").read_text(), re.MULTILINE))
    known = {*billing_cases()} | pains
    assert [name for name in PAINS if name not in known] == []
    assert sorted(name for name in proofs() if name.startswith("bill-") and name not in known) == []


def test_every_case_of_billing_is_read_from_its_file() -> None:
    """A test that copies the numbers of a case would pass when the case changes."""
    copies = [
        where
        for name, tests in proofs().items()
        if name.startswith("bill-")
        for where in tests
        if "case(" not in (ROOT / where.partition("::")[0]).read_text()
    ]
    assert copies == []


def test_p37_is_proved_at_each_of_its_doors() -> None:
    files = {where.partition("::")[0] for where in proofs()["P37"]}
    assert {door: path for door, path in DOORS_OF_P37.items() if path not in files} == {}


if __name__ == "__main__":
    table = proofs()
    for case in [*billing_cases(), *PAINS]:
        print(f"{case:<11} {' '.join(table[case]) or '-'}")
