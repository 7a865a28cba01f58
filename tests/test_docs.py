"""The documentation is true as far as a machine can tell: links lead somewhere, settings, commands, claims and words exist, and nothing names this machine."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.sources import PACKAGES, ROOT, files, python_files, text

PAGES = [path for path in files() if path.suffix == ".md" and path.parts[0] not in {"tests", "benchmarks"}]
ALL_WORDS = "\n".join(text(path) for path in PAGES)
SETTING = re.compile(r"\b(IDLEWILD_[A-Z0-9_]+|DATABASE_URL|REDIS_URL|EMAIL_URL|STRIPE_[A-Z_]+)\b")
# Names that our programs set for jobs, wheels or tests, not settings of the server.
SETTING_PAGES = [
    Path("docs/operate/settings.md"),
    Path("docs/agent.md"),
    Path("docs/isolation.md"),
    Path("docs/reference/cli.md"),
]


def found(problems: list[str], advice: str) -> None:
    assert not problems, advice + ":\n  " + "\n  ".join(problems)


def test_every_link_leads_somewhere() -> None:
    problems = []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text(page)):
            if "://" in target or target.startswith("mailto:"):
                continue
            if not (ROOT / page.parent / target).resolve().exists():
                problems.append(f"{page} → {target}")
    found(problems, "dead links")


def settings_read() -> dict[str, str]:
    """Names that the code takes from the environment, and one file that does."""
    names: dict[str, str] = {}
    readers = re.compile(
        r"""(?:env\.(?:text|flag|number|words)|required|table|environ\.get|getenv|environ)\s*[\(\[]\s*["']([A-Z][A-Z0-9_]+)["']"""
    )
    for path in [
        *python_files("portal", "scheduling", "billing", "marketplace", "frontend", "agent", "client"),
        Path("dev"),
    ]:
        for name in readers.findall(text(path)):
            if SETTING.fullmatch(name) and not name.startswith("IDLEWILD_TEST_"):
                names[name] = str(path)
    return names


def test_every_setting_is_documented() -> None:
    pages = "\n".join(text(path) for path in SETTING_PAGES if (ROOT / path).exists())
    found(
        [
            f"{name} ({where})"
            for name, where in sorted(settings_read().items())
            if not re.search(rf"\b{name}\b", pages)
        ],
        "docs/operate/settings.md lacks",
    )


def test_every_documented_setting_exists() -> None:
    code = "\n".join(
        text(path)
        for path in [*python_files(*PACKAGES, "tests"), Path("dev"), *(p for p in files() if p.parts[0] == "deploy")]
    )
    documented = set(SETTING.findall(text(Path("docs/operate/settings.md")) + text(Path(".env.example"))))
    missing = sorted(name for name in documented if not re.search(rf"\b{name}\b", code))
    found(missing, "documented, but read nowhere")


def test_every_knob_of_the_tables_is_documented() -> None:
    page = text(Path("docs/operate/settings.md"))
    from portal import settings

    rows = [*settings.LEASE_CLASSES_REAL, *settings.IDLEWILD_RATE_LIMITS]
    found([row for row in rows if f"`{row}`" not in page], "docs/operate/settings.md lacks the row")
    for name, row in settings.LEASE_CLASSES_REAL.items():
        line = next(line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
        shown = [cell.strip() for cell in line.split("|")[2:-1]]
        real = [
            f"{row[key] / 1000:g} s"
            for key in ("ttl_ms", "renew_ms", "deadline_ms", "lapse_ms", "suspect_ms", "accept_ms")
        ]
        assert shown == real, f"{name}: the page says {shown}, the table {real}"


def test_every_make_target_is_documented_and_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", text(Path("Makefile")), re.MULTILINE))
    named = set(re.findall(r"`make ([a-z]+)`", ALL_WORDS))
    assert named <= targets, f"documented, but not in the Makefile: {sorted(named - targets)}"
    assert targets <= named, f"in the Makefile, but documented nowhere: {sorted(targets - named)}"


def test_every_command_of_the_launcher_is_documented_and_exists() -> None:
    commands = set(re.findall(r"^COMMANDS = \{(.*)\}", text(Path("dev")), re.MULTILINE)[0].replace('"', "").split(", "))
    there = {command.split(":")[0] for command in commands}
    named = set(re.findall(r"\./dev ([a-z]+)", ALL_WORDS))
    assert named <= there, f"documented, but ./dev has no {sorted(named - there)}"
    assert there <= named, f"./dev has {sorted(there - named)}, documented nowhere"
    options = set(re.findall(r'add_argument\("(--[a-z]+)"', text(Path("portal/stack/supervisor.py"))))
    found(
        [option for option in sorted(options) if f"up {option}" not in ALL_WORDS],
        "an option of ./dev up is documented nowhere",
    )


def test_every_direct_dependency_has_its_reason() -> None:
    project = tomllib.loads(text(Path("pyproject.toml")))["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    names = sorted({re.split(r"[\[><=~ ]", line)[0] for line in lines})
    page = text(Path("docs/operate/dependencies.md"))
    families = ("opentelemetry-", "pytest-")  # given once for the whole family
    found(
        [name for name in names if name not in page and not name.startswith(families)],
        "docs/operate/dependencies.md lacks a line for",
    )


# --- claims ------------------------------------------------------------------------------------------------------------------------
def claim_commands() -> list[str]:
    page = Path("docs/claims.md")
    assert (ROOT / page).exists(), "docs/claims.md lists every figure the pages state, with the command that shows it"
    return [
        command
        for line in text(page).splitlines()
        if line.startswith("|")
        for command in re.findall(r"`([^`]*(?:benchmarks/|pytest |\./dev |make )[^`]*)`", line)
    ]


def test_every_claim_has_a_command_that_exists() -> None:
    problems = []
    commands = claim_commands()
    assert commands, "docs/claims.md names no command"
    for command in commands:
        for word in command.split():
            path = word.split("::")[0]
            if re.match(r"(benchmarks|tests)/", path) and not (ROOT / path).exists():
                problems.append(f"{command}: {path} is not there")
            if (
                "::" in word
                and (ROOT / path).exists()
                and f"def {word.split('::')[-1].split('[')[0]}" not in text(Path(path))
            ):
                problems.append(f"{command}: no such test")
    found(problems, "a claim that nobody can check")


def test_every_benchmark_is_a_claim() -> None:
    problems = []
    folders = sorted({path.parts[1] for path in files() if path.parts[0] == "benchmarks" and len(path.parts) > 2})
    for folder in folders:
        for name in ("README.md", "run.py", "baseline.py", "result.json"):
            if not (ROOT / "benchmarks" / folder / name).exists():
                problems.append(f"benchmarks/{folder} has no {name}")
        if not any(f"benchmarks/{folder}/run.py" in command for command in claim_commands()):
            problems.append(f"benchmarks/{folder} is in no row of docs/claims.md")
    found(problems, "a folder a claim")


# --- words -------------------------------------------------------------------------------------------------------------------------
def test_every_state_is_in_the_documentation() -> None:
    from tests.test_house import STATES

    problems = [
        f"{thing}: {state}"
        for thing, states in STATES.items()
        for state in states.split()
        if not re.search(rf"\b{state}\b", ALL_WORDS)
    ]
    found(problems, "a state that no page explains")


def test_every_error_code_is_in_the_documentation() -> None:
    codes = set(
        re.findall(r'code(?:: str)? = "([A-Z][A-Z_]+)"', "\n".join(text(path) for path in python_files("portal")))
    )
    found(sorted(code for code in codes if code not in ALL_WORDS), "an error code that no page explains")


def test_a_decision_has_its_five_parts() -> None:
    problems = []
    for path in files():
        if path.is_relative_to("docs/decisions") and path.suffix == ".md" and re.match(r"\d{4}-", path.name):
            problems += [
                f"{path}: {part}"
                for part in ("Context", "Decision", "Consequences", "Alternatives", "Enforced by")
                if part not in text(path)
            ]
    found(problems, "a decision lacks")


def test_the_changelog_tells_what_is_new() -> None:
    sections = text(Path("CHANGELOG.md")).split("\n## ")
    assert sections[1].startswith("Unreleased")
    assert re.search(r"^- \S", sections[1], re.MULTILINE), "CHANGELOG.md: nothing under Unreleased"


def test_the_readme_starts_with_the_two_commands() -> None:
    first = text(Path("README.md"))[:400]
    assert first.index("./dev up") < first.index("./dev test")


# --- nothing of this machine ---------------------------------------------------------------------------------------------------------
HERE = re.compile(
    r"(?<![\w.:/-])/(?:work/|root/|tmp/plan|home/[a-z]+/)|pypi\.org|pythonhosted|registry\.npmjs\.org|\.\./shared/design"
)


@pytest.mark.parametrize("folder", [*PACKAGES, "tests", "docs", "deploy", "benchmarks", "."])
def test_nothing_names_this_machine(folder: str) -> None:
    problems = []
    for path in files():
        here = path.parts[0] == folder if folder != "." else len(path.parts) == 1
        if (
            not here
            or path == Path("tests/test_docs.py")
            or path.suffix in {".png", ".ico", ".woff2", ".gz", ".mo", ".webp"}
        ):
            continue
        for number, line in enumerate((ROOT / path).read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if HERE.search(line) and "package-lock" not in path.name:
                problems.append(f"{path}:{number}: {line.strip()[:100]}")
    found(problems, "a path or registry of one machine means nothing on another")
