"""The house rules that a machine can check; each failure names the file and what to do. What a machine cannot check is read for before each commit."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import sources
from tests.sources import PACKAGES, ROOT, RULES, files, is_migration, module_name, python_files, text, tree

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
BIN = Path(sys.executable).parent
LONG = pytest.mark.timeout(600)


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def must_pass(done: subprocess.CompletedProcess[str], advice: str) -> None:
    assert done.returncode == 0, f"{advice}\n{done.stdout[-6000:]}\n{done.stderr[-3000:]}"


def found(problems: list[str], advice: str) -> None:
    assert not problems, advice + ":\n  " + "\n  ".join(problems)


# --- imports -------------------------------------------------------------------------------------------------------------------
@LONG
def test_the_import_contracts_hold() -> None:
    must_pass(
        run(BIN / "lint-imports", "--no-cache"), "an import goes up: see CONTRIBUTING.md, 'The house in one minute'"
    )


def test_contract_1_knows_every_part_of_the_portal() -> None:
    contract = next(row for row in PYPROJECT["tool"]["importlinter"]["contracts"] if row["name"].startswith("1 "))
    listed = {name.strip() for layer in contract["layers"] for name in re.split(r"[:|]", layer)}
    there = {
        f"portal.{path.parts[1].removesuffix('.py')}"
        for path in python_files("portal")
        if path.parts[1] != "__init__.py"
    }
    assert {name for name in listed if name.startswith("portal.")} == there, (
        "the linter does not look at a portal module that contract 1 does not name"
    )


def test_an_init_is_empty_except_that_of_models() -> None:
    full = [
        str(path)
        for path in python_files()
        if path.name == "__init__.py" and path.parent.name != "models" and text(path).strip()
    ]
    found(full, "importing a module runs the __init__ of all its parents: move the code into a module")


def test_models_are_all_imported_by_their_package() -> None:
    problems = []
    for path in python_files():
        if path.parent.name == "models" and path.name != "__init__.py" and "(models.Model)" in text(path):
            init = text(path.parent / "__init__.py")
            if not re.search(rf"\b{path.stem}\b", init):
                problems.append(f"{path} is not imported by {path.parent}/__init__.py: makemigrations would not see it")
    found(problems, "models unseen")


@pytest.mark.parametrize("package", ["agent", "client"])
def test_inside_agent_and_client_imports_are_relative(package: str) -> None:
    problems = []
    for path in python_files(package):
        for node in ast.walk(tree(path)):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom) and not node.level
                else []
            )
            problems += [f"{path}:{node.lineno} imports {name}" for name in names if name.split(".")[0] == package]  # type: ignore[attr-defined]
    found(problems, "its wheel has another name (idlewild_agent, idlewild): write `from . import x`")


def modules_loaded_by(names: list[str]) -> set[str]:
    script = (
        f"import sys, importlib\nfor name in {names!r}: importlib.import_module(name)\nprint('\\n'.join(sys.modules))"
    )
    done = run(sys.executable, "-W", "ignore", "-c", script)
    must_pass(done, "a module does not import by itself")
    return set(done.stdout.split())


def test_rules_load_without_django_or_celery() -> None:
    names = [module_name(path) for path in python_files(*RULES, "agent/protocol.py", "agent/machine.py")]
    heavy = {
        name
        for name in modules_loaded_by(names)
        if name.split(".")[0] in {"django", "celery", "channels", "rest_framework", "redis", "psycopg"}
    }
    assert not heavy, f"a rule, directly or through an __init__, loads {sorted(heavy)[:5]}"


@pytest.mark.parametrize("package", ["agent", "client"])
def test_agent_and_client_load_without_the_server(package: str) -> None:
    names = [module_name(path) for path in python_files(package) if path.name != "__main__.py"]
    loaded = {name.split(".")[0] for name in modules_loaded_by(names)}
    assert not loaded & {
        "django",
        "celery",
        "channels",
        "rest_framework",
        "psycopg",
        "portal",
        "scheduling",
        "billing",
        "marketplace",
        "frontend",
    }


# --- tools ---------------------------------------------------------------------------------------------------------------------
def test_the_code_is_formatted() -> None:
    done = run(BIN / "ruff", "format", "--check", "--output-format", "concise", ".")
    must_pass(done, "run `make lint`")


def test_the_linter_is_content() -> None:
    must_pass(run(BIN / "ruff", "check", "--quiet", "--output-format", "concise", "."), "run `make lint`")


@LONG
def test_rules_agent_and_client_are_strictly_typed() -> None:
    must_pass(run(BIN / "mypy", *RULES, "agent", "client"), "run `make types`")


@pytest.mark.django_db
def test_models_and_migrations_agree() -> None:
    must_pass(
        run(sys.executable, "manage.py", "makemigrations", "--check", "--dry-run"),
        "a model changed without its migration",
    )


@LONG
def test_the_locks_are_current() -> None:
    done = run(sys.executable, "dev", "lock", "--check")
    unreachable = (
        "error sending request",
        "Could not connect",
        "dns error",
        "tcp connect",
        "Failed to fetch",
        "needs uv",
        "No solution found",
    )
    if done.returncode and any(word in done.stdout + done.stderr for word in unreachable):
        pytest.skip("no package index in reach: the locks were not compared with pyproject.toml")
    must_pass(done, "run ./dev lock")


def test_the_locks_name_no_address() -> None:
    locks = sorted(ROOT.glob("requirements*.lock"))
    assert len(locks) == 5
    found(
        [path.name for path in locks if "://" in path.read_text()],
        "a lock with an address binds everyone to one registry",
    )
    package_lock = (ROOT / "frontend" / "package-lock.json").read_text()
    assert '"resolved"' not in package_lock, "frontend/.npmrc: omit-lockfile-registry-resolved=true"


def node_tool(name: str, *words: str) -> None:
    tool = ROOT / "frontend" / "node_modules" / ".bin" / name
    if not tool.exists() or not shutil.which("node"):
        pytest.skip("the pages' tools are not installed: no Node")
    must_pass(run(tool, *words, cwd=ROOT / "frontend"), f"npx {name} in frontend/")


@LONG
def test_the_pages_scripts_have_right_types() -> None:
    node_tool("tsc", "--noEmit")


@LONG
def test_the_pages_scripts_are_tidy() -> None:
    node_tool("biome", "check", "src")


@LONG
def test_the_pages_scripts_pass_their_tests() -> None:
    node_tool("vitest", "run")


def test_the_entry_script_is_small() -> None:
    import gzip

    built = list((ROOT / "frontend" / "dist" / "assets").glob("main-*.js"))
    if not built:
        pytest.skip("the pages are not built")
    sizes = {path.name: len(gzip.compress(path.read_bytes())) for path in built}
    assert max(sizes.values()) <= 20_000, f"an island should be loaded when it is needed: {sizes}"


# --- stories and names -----------------------------------------------------------------------------------------------------------
def test_a_module_opens_with_its_story() -> None:
    silent = [
        str(path)
        for path in python_files()
        if path.name not in {"__init__.py", "apps.py", "__main__.py"}
        and not is_migration(path)
        and not ast.get_docstring(tree(path))
    ]
    found(silent, "say in the first lines what the module is for")


def test_no_module_is_called_utils_or_common() -> None:
    names = {"utils", "util", "common", "helpers", "misc"}
    found(
        [str(path) for path in python_files() if names & {part.removesuffix(".py") for part in path.parts}],
        "a module is called after what it does",
    )


def test_a_migration_has_a_name() -> None:
    anonymous = [
        str(path)
        for path in python_files()
        if is_migration(path) and re.search(r"_auto_|\d{4}_(initial|migration)", path.stem)
    ]
    found(anonymous, "name the migration after what it changes (0004_lease_fence)")


def test_nothing_is_left_to_do() -> None:
    pattern = re.compile(r"#.*\b(TO" + "DO|FIX" + "ME|XX" + r"X|HA" + r"CK)\b")
    found(
        [
            f"{path}:{number}"
            for path in python_files(*PACKAGES, "tests", "benchmarks")
            for number, line in enumerate(text(path).splitlines(), 1)
            if pattern.search(line)
        ],
        "finish it or file it",
    )


# --- bans ----------------------------------------------------------------------------------------------------------------------
def calls(path: Path) -> Iterator[tuple[ast.Call, str]]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call):
            yield node, ast.unparse(node.func)


def test_only_clock_and_ids_read_time_and_draw_randomness() -> None:
    allowed = {Path("portal/clock.py"), Path("portal/ids.py"), Path("agent/runner.py")}
    banned = re.compile(
        r"(^|\.)(datetime\.now|datetime\.utcnow|date\.today|timezone\.now|uuid4|uuid1)$|^time\.time(_ns)?$"
    )
    exempt = {("portal/softstate.py", "time.time")}  # numbers a counter's window; nothing else hangs on it
    problems = [
        f"{path}:{node.lineno} calls {name}"
        for path in python_files()
        if path not in allowed and path.parts[0] not in {"agent", "client"} and not is_migration(path)
        for node, name in calls(path)
        if banned.search(name) and (str(path), name) not in exempt
    ]
    for path in python_files("portal", "frontend", "scheduling", "billing", "marketplace"):
        if path in allowed:
            continue
        for node in ast.walk(tree(path)):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom) and not node.level
                else []
            )
            problems += [f"{path} imports {name}" for name in names if name in {"random", "secrets"}]
    found(problems, "ask portal.clock or portal.ids at the door, and hand the value on as an argument")


def test_rules_do_not_read_the_clock_either() -> None:
    banned = re.compile(r"^(time|random|secrets|os|datetime\.now|uuid)\b")
    problems = [
        f"{path}:{node.lineno} calls {name}"
        for path in python_files(*RULES, "agent/protocol.py", "agent/machine.py")
        for node, name in calls(path)
        if banned.search(name) and not name.startswith("os.path")
    ]
    found(problems, "a rule gets time and chance as arguments")


def test_money_has_no_float() -> None:
    problems = []
    for path in [*python_files("billing"), Path("portal/kit/money.py"), Path("marketplace/domain/pricing.py")]:
        if is_migration(path) or not (ROOT / path).exists():
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Constant) and isinstance(node.value, float):
                problems.append(f"{path}:{node.lineno} has the float {node.value}")
            if isinstance(node, ast.Call) and ast.unparse(node.func) in {"float", "models.FloatField", "FloatField"}:
                problems.append(f"{path}:{node.lineno} calls {ast.unparse(node.func)}")
    found(problems, "money is whole numbers (UnitPrice, Money) or a fraction before its one rounding (Exact)")


def test_no_model_has_a_float() -> None:
    found(
        [str(path) for path in python_files() if "models.FloatField" in text(path)],
        "store whole numbers with their unit in the name",
    )


def test_nothing_happens_by_signal() -> None:
    pattern = re.compile(
        r"(?<!field\.)\b(post_save|pre_save|post_delete|pre_delete|m2m_changed|django\.dispatch|@receiver)\b"
    )
    found(
        [str(path) for path in python_files() if pattern.search(text(path))],
        "the service says what it does; what follows goes through the outbox",
    )


def test_our_own_code_is_never_mocked() -> None:
    pattern = re.compile(r"unittest\.mock|from unittest import mock|\bmocker\b|MagicMock")
    users = [
        str(path)
        for path in python_files(*PACKAGES, "tests", "benchmarks")
        if path.name != "test_house.py" and pattern.search(text(path))
    ]
    found(users, "use the real thing, or a stateful fake from tests/fakes")


def test_a_delay_is_a_row_and_not_a_message() -> None:
    problems = []
    for path in python_files("portal", "scheduling", "billing", "marketplace", "frontend"):
        for node, name in calls(path):
            words = {keyword.arg for keyword in node.keywords}
            if words & {"countdown", "eta", "autoretry_for", "retry_backoff", "bind"} and (
                "task" in name or "apply_async" in name
            ):
                problems.append(f"{path}:{node.lineno} {name}({', '.join(sorted(filter(None, words)))})")
            if path.name == "tasks.py" and name.endswith(".retry"):
                problems.append(f"{path}:{node.lineno} {name}")
    found(problems, "a delay kept in Redis is a truth in Redis: write not_before or due_at into a row")


def test_only_the_timetable_says_every_n_seconds() -> None:
    pattern = re.compile(r"beat_schedule|crontab\(|add_periodic_task|periodic_task")
    found(
        [str(path) for path in python_files() if path != Path("portal/celery.py") and pattern.search(text(path))],
        "periods live in portal/celery.py",
    )


def test_no_error_is_swallowed_whole() -> None:
    problems = []
    for path in python_files():
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.ExceptHandler):
                continue
            name = ast.unparse(node.type) if node.type else ""
            hides = len(node.body) == 1 and isinstance(node.body[0], ast.Pass | ast.Continue)
            if not name or (name in {"Exception", "BaseException"} and hides):
                problems.append(f"{path}:{node.lineno} except {name or '(everything)'}")
    found(problems, "name the error you expect")


def test_a_celery_task_is_three_lines() -> None:
    problems = []
    for path in python_files("portal", "scheduling", "billing", "marketplace"):
        if path.name != "tasks.py":
            continue
        for node in tree(path).body:
            if isinstance(node, ast.FunctionDef) and any(
                "shared_task" in ast.unparse(item) for item in node.decorator_list
            ):
                statements = [
                    line
                    for line in node.body
                    if not (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
                ]
                if len(statements) > 3:
                    problems.append(f"{path}:{node.lineno} {node.name} has {len(statements)} statements")
    found(problems, "a task is a door: one service call with now=clock.now()")


def enclosing(path: Path) -> dict[ast.AST, str]:
    """Statement → the name of the function it stands in."""
    return {
        inner: function.name
        for function in ast.walk(tree(path))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(function)
    }


# Writes under a condition on state that may well find nothing: what is meant is "those of them that are still so".
ANY_NUMBER = {
    ("portal/accounts/services/webhooks.py", "_disable"): "what is still due to an endpoint that is switched off",
    ("billing/services/periods.py", "_begin_grace"): "all months that are over",
    ("scheduling/services/artefacts.py", "publish"): "the same names of earlier attempts, if there are any",
    ("scheduling/services/nodes_sync.py", "_note_frozen"): "a mark for people; what has ended keeps the last one",
    ("scheduling/services/recovery.py", "_follow"): "only extends; a lease that ended meanwhile stays ended",
}


def test_a_guarded_write_looks_at_its_row_count() -> None:
    guard = re.compile(r"\b(state|state__in|fence|version|free_\w+)=")
    found_here: set[tuple[str, str]] = set()
    for path in python_files("portal", "scheduling", "billing", "marketplace", "frontend"):
        for node in ast.walk(tree(path)):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Call)
                and isinstance(node.value.func, ast.Attribute)
                and node.value.func.attr == "update"
                and guard.search(ast.unparse(node.value.func.value))
            ):
                found_here.add((str(path), enclosing(path).get(node, "")))
    found(
        [f"{path}: {name}" for path, name in sorted(found_here - set(ANY_NUMBER))],
        "`if updated != 1:` another got there first; or say in ANY_NUMBER why nothing may be found",
    )
    assert set(ANY_NUMBER) <= found_here, f"no longer there: {sorted(set(ANY_NUMBER) - found_here)}"


# Refusals that no tenant's page, program or command shows: who lost a race, what operators' commands say, what the rules say to their callers.
PLAIN_REFUSALS = {
    "billing/domain", "billing/gateways/stripe.py", "billing/selectors/balances.py", "billing/services/documents.py",
    "billing/services/holds.py", "billing/services/invoices.py", "billing/services/ledger.py", "billing/services/periods.py",
    "billing/services/usage.py", "portal/kit/machine.py", "scheduling/domain", "scheduling/services/leases.py",
    "scheduling/services/outcomes.py", "scheduling/services/reports.py",
}  # fmt: skip


def test_a_refusal_is_said_in_the_readers_language() -> None:
    from portal.kit import errors

    ours = {
        name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.IdlewildError)
    }
    found(
        [
            f"{path}:{node.lineno} {ast.unparse(node.args[0])[:80]}"
            for path in python_files("portal", "scheduling", "billing", "marketplace", "frontend")
            if not any(path.is_relative_to(place) for place in PLAIN_REFUSALS)
            for node, name in calls(path)
            if name.rpartition(".")[2] in ours and node.args and isinstance(node.args[0], ast.Constant | ast.JoinedStr)
        ],
        "wrap it in gettext's _(), with named gaps",
    )


# --- celery -----------------------------------------------------------------------------------------------------------------------
def test_the_timetable_names_tasks_that_exist() -> None:
    from portal.celery import TIMETABLE, app

    app.loader.import_default_modules()
    missing = sorted(set(TIMETABLE) - set(app.tasks))
    assert not missing, f"portal/celery.py asks for tasks that nobody has: {missing}"


def test_every_periodic_task_has_a_queue_that_a_worker_serves() -> None:
    from portal.celery import TIMETABLE

    served = set(re.findall(r'\("[a-z-]+", "([a-z,]+)", \(', text(Path("portal/stack/story.py"))))
    queues = {name for group in served for name in group.split(",")}
    assert {queue for queue, _ in TIMETABLE.values()} <= queues


# --- states -----------------------------------------------------------------------------------------------------------------------
# The states of the house, by the name of the thing; the order is the reader's, not a rank.
STATES = {
    "lease": "pending active released expired revoked",
    "enrolment": "invited probing listed draining retired",
    "offer": "draft published paused withdrawn expired",
    "quote": "open used expired",
    "artefact": "stored deleted expired",
    "attempt": "assigned leased running unreachable cancelling succeeded failed oom timeout cancelled assignment_expired lost",
    "task": "waiting queued placed running done failed cancelled",
    "job": "queued running done failed cancelled",
    "period": "open grace closing closed",
    "invoice": "draft open partially_paid past_due paid void uncollectible",
    "hold": "active captured released expired",
    "payment": "created requires_action processing succeeded disputed failed cancelled refunded",
    "payout": "accrued available reserved sent paid failed",
}


def state_enums() -> dict[str, set[str]]:
    """Every ``<Thing>State`` enum, and ``State`` of a module called after the thing: thing → its values."""
    enums: dict[str, set[str]] = {}
    for path in python_files(
        *(
            f"{business}/{layer}"
            for business in ("scheduling", "billing", "marketplace")
            for layer in ("models", "domain")
        )
    ):
        for node in tree(path).body:
            if (
                isinstance(node, ast.ClassDef)
                and node.name.endswith("State")
                and any("StrEnum" in ast.unparse(base) for base in node.bases)
            ):
                values = {
                    item.value.value
                    for item in node.body
                    if isinstance(item, ast.Assign) and isinstance(item.value, ast.Constant)
                }
                enums[node.name.removesuffix("State").lower() or path.stem] = values
    return enums


@pytest.mark.parametrize("thing", sorted(STATES))
def test_the_states_are_those_of_the_house(thing: str) -> None:
    enums = state_enums()
    assert thing in enums, f"no {thing.title()}State(StrEnum) in any domain/; there are: {sorted(enums)}"
    assert enums[thing] == set(STATES[thing].split())


def test_an_enum_of_states_is_a_strenum_in_lower_case() -> None:
    problems = [
        f"{thing}: {value}" for thing, values in state_enums().items() for value in values if value != value.lower()
    ]
    found(problems, "states are lower case")


# --- the launcher ---------------------------------------------------------------------------------------------------------------
def test_ci_is_dev_test_and_nothing_else() -> None:
    script = [line for line in text(Path(".ci/run")).splitlines() if line and not line.startswith("#")]
    assert script == ['cd "$(dirname "$0")/.." && exec ./dev test "$@"']
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert os.access(ROOT / "dev", os.X_OK)


def test_the_launcher_needs_the_standard_library_only() -> None:
    standard = set(sys.stdlib_module_names) | {"portal"}
    names = set()
    for node in ast.walk(ast.parse((ROOT / "dev").read_text(), feature_version=(3, 8))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            names.add((node.module or "").split(".")[0])
    assert names <= standard


def test_the_embedded_stack_never_imports_the_redis_package() -> None:
    done = run(
        sys.executable,
        "-c",
        "import portal.stack.supervisor, portal.stack.embedded, sys; print('django' in sys.modules, 'redis' in sys.modules)",
    )
    assert done.stdout.split() == ["False", "False"], "up must start without waiting for Django: " + done.stderr


def test_make_targets_are_short() -> None:
    bodies: dict[str, int] = {}
    target = ""
    for line in text(Path("Makefile")).splitlines():
        if re.match(r"[a-z]+:", line):
            target = line.split(":")[0]
        elif line.startswith("\t"):
            bodies[target] = bodies.get(target, 0) + 1
    assert max(bodies.values()) <= 3
    wanted = [
        "setup",
        "run",
        "test",
        "fast",
        "lint",
        "types",
        "migrations",
        "docs",
        "frontend",
        "bench",
        "check",
        "demo",
        "engines",
        "chaos",
        "drill",
        "books",
        "screens",
        "fresh",
    ]
    assert sorted(bodies) == sorted(wanted)


# --- what a test run leaves behind ---------------------------------------------------------------------------------------------------
def test_expected_skips_are_named_with_a_reason() -> None:
    lines = [
        line
        for line in text(Path("tests/expected_skips.txt")).splitlines()
        if line.strip() and not line.startswith("#")
    ]
    for line in lines:
        assert re.fullmatch(r"\S+ +# .+", line), f"write `test_pattern  # why`: {line!r}"


def test_tests_mirror_the_house() -> None:
    special = {"walks", "e2e", "fakes", "factories", "cases", "replays"}
    strangers = [
        str(path)
        for path in python_files("tests")
        if path.name.startswith("test_") and len(path.parts) > 2 and path.parts[1] not in {*PACKAGES, *special}
    ]
    found(strangers, "tests/<package>/<layer>/test_<file>.py")


def test_json_replays_are_json() -> None:
    for path in files():
        if path.is_relative_to("tests/replays") and path.suffix == ".json":
            json.loads(text(path))


def test_sources_see_the_house() -> None:
    assert Path("portal/settings.py") in sources.files()
    assert len(python_files()) > 100
