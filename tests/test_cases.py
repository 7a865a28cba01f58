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

# What the main job answers for; the others come with the parts they speak of (rails, wallets, gangs, checkpoints, …).
BILLING = [
    *("a1", "a2", "a3", "a5", "b1", "b5", "b6", "b7", "b8", "b9", "b11", "b12", "b13", "b14", "c1", "c2", "c3", "c4"),
    *("d1", "d2", "d3", "g1", "g2", "g3", "h1", "i1", "i2", "j1", "k1", "l1", "l2", "m1", "o1", "o2"),
    *(f"tier{number}" for number in range(1, 7)),
]
PAINS = [f"P{n}" for n in (2, 6, 14, 15, 16, 18, 19, 20, 21, 22, 24, 27, 28, 29, 31, 32, 33, 34, 36, 37, 38, 41, 44)]
# P37 is refused at five doors; each has a test of its own.
DOORS_OF_P37 = {
    "API": "tests/marketplace/api/test_rest.py",
    "CLI": "tests/client/test_live_market.py",
    "import": "tests/marketplace/selectors/test_offers.py",
    "admin": "tests/marketplace/test_admin.py",
    "raw SQL": "tests/billing/models/test_guards.py",
}


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
    wanted = [*(f"bill-{name}" for name in BILLING), *PAINS]
    assert [name for name in wanted if name not in there] == [], "no test names this case"


def test_the_cases_named_exist() -> None:
    rows = yaml.safe_load((ROOT / "tests/cases/billing.yaml").read_text())["cases"]
    pains = set(re.findall(r"^\| (P\d+) \|", (ROOT / "tests/cases/pains.md").read_text(), re.MULTILINE))
    known = {row["id"] for row in rows} | pains
    assert [name for name in (*(f"bill-{name}" for name in BILLING), *PAINS) if name not in known] == []
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
    for case in [*(f"bill-{name}" for name in BILLING), *PAINS]:
        print(f"{case:<11} {' '.join(table[case]) or '-'}")
