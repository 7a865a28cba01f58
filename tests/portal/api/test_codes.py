"""The table of error codes is what the code raises, what the interface serves and what the page prints."""

import ast
from pathlib import Path

from portal.api.codes import CODES
from portal.kit import errors

ROOT = Path(__file__).resolve().parents[3]
OURS = {
    name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.IdlewildError)
}


def raised():
    """Codes that are handed to one of our errors, with where."""
    for package in ("portal", "marketplace", "scheduling", "billing", "frontend"):
        for path in (ROOT / package).rglob("*.py"):
            if "migrations" in path.parts:
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.Call):
                    continue
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                for keyword in node.keywords:
                    if keyword.arg == "code" and isinstance(keyword.value, ast.Constant) and name in OURS:
                        yield str(keyword.value.value), str(path.relative_to(ROOT))


def test_every_raised_code_is_in_the_table():
    missing = {code: where for code, where in raised() if code not in CODES}
    assert missing == {}, "add them to portal/api/codes.py, with what to do, and to docs/reference/errors.md"


def test_every_class_has_its_code_in_the_table():
    codes = {getattr(errors, name).code for name in OURS} - {"error"}
    assert codes <= set(CODES)


def test_the_page_prints_the_table():
    page = (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert rows == [f"| `{code}` | {words} |" for code, words in CODES.items()]


def test_the_interface_serves_it_to_everybody(client, db):
    assert len(client.get("/api/v1/errors").json()["items"]) == len(CODES)
    problem = client.get("/api/v1/me").json()
    assert client.get(problem["help"]).json() == {"code": "not_signed_in", "help": CODES["not_signed_in"]}
    assert client.get("/api/v1/errors/nothing").status_code == 404
