"""How much of the rules their own tests reach: all of money, leases, metering and the machines, by branch; nearly all of the rest.

Rules are tested without a database, so this is one short run of those tests, measured. Elsewhere coverage is read, not demanded.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sources import ROOT

TESTS = (
    "tests/portal/kit",
    "tests/billing/domain",
    "tests/marketplace/domain",
    "tests/scheduling/domain",
    "tests/agent/test_machine.py",
    "tests/agent/test_protocol.py",
)
MEASURED = (
    "portal.kit",
    "billing.domain",
    "marketplace.domain",
    "scheduling.domain",
    "agent.machine",
    "agent.protocol",
)
WHOLE = (
    "portal/kit/",
    "billing/domain/",
    "agent/machine.py",
    "scheduling/domain/lease.py",
    "scheduling/domain/attempt.py",
    "scheduling/domain/job.py",
    "scheduling/domain/retry.py",
)
NEARLY = {"marketplace/domain/": 95.0, "scheduling/domain/": 95.0, "agent/protocol.py": 95.0}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, int]]:
    """File → its counts of statements and branches, and how many of them were reached."""
    folder = tmp_path_factory.mktemp("coverage")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_", "IDLEWILD_TEST_"))
    }
    environment |= {"IDLEWILD_TEST_NO_DB": "1", "COVERAGE_FILE": str(folder / "data")}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *TESTS,
        "--cov-branch",
        f"--cov-report=json:{folder / 'report.json'}",
    ]
    command += [f"--cov={name}" for name in MEASURED]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    files = json.loads((folder / "report.json").read_text())["files"]
    return {
        name: {
            "all": row["summary"]["num_statements"] + row["summary"]["num_branches"],
            "reached": row["summary"]["covered_lines"] + row["summary"]["covered_branches"],
        }
        for name, row in files.items()
    }


@pytest.mark.timeout(400)
def test_money_leases_metering_and_machines_are_reached_in_every_branch(measured: dict[str, dict[str, int]]) -> None:
    part = {
        name: f"{row['all'] - row['reached']} of {row['all']} statements and branches are not reached"
        for name, row in measured.items()
        if name.startswith(WHOLE) and row["reached"] < row["all"]
    }
    assert part == {}
    assert len([name for name in measured if name.startswith(WHOLE)]) > 15


@pytest.mark.timeout(400)
@pytest.mark.parametrize("folder", sorted(NEARLY))
def test_nearly_all_of_the_other_rules_is_reached(measured: dict[str, dict[str, int]], folder: str) -> None:
    rows = {name: row for name, row in measured.items() if name.startswith(folder) and not name.startswith(WHOLE)}
    share = 100 * sum(row["reached"] for row in rows.values()) / sum(row["all"] for row in rows.values())
    weakest = sorted(rows, key=lambda name: rows[name]["reached"] - rows[name]["all"])[:5]
    assert share >= NEARLY[folder], f"{share:.1f} %; look at {weakest}"


def test_the_files_named_here_exist() -> None:
    assert [name for name in (*TESTS, *WHOLE) if not (ROOT / Path(name)).exists()] == []
