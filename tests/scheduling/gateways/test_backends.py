"""Compiled or not, with or without the packages: the same answers, and never a compilation while somebody waits."""

import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from scheduling.domain import frontier, search, summaries
from scheduling.domain.columns import build
from scheduling.domain.kernels import PLAIN, Kernels
from scheduling.domain.search import Problem
from scheduling.gateways import backends
from tests.scheduling.domain.markets import a_market, a_wish, paths

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder with the compiled loops in it."""
    folder = tmp_path_factory.mktemp("state")
    assert not backends.ready(folder)
    assert backends.best(folder).name != backends.NUMBA, "nothing is compiled while somebody waits"
    backends.warm(folder)
    assert backends.ready(folder)
    return folder


@pytest.mark.parametrize("name", backends.NAMES)
def test_every_backend_gives_the_same_front_and_pick(name: str, state: Path) -> None:
    made = backends.load(name, state=state)
    assert made.name == name
    for seed in range(40):
        table = build(a_market(seed, 150))
        request, policy = a_wish(seed)
        mine = Problem(request, policy, table, paths(), tiers=summaries.build(table, kernels=made))
        plain = Problem(request, policy, table, paths())
        for search_of in (frontier.front_by_groups, frontier.front_flat):
            assert search_of(mine).rows.tolist() == search_of(plain).rows.tolist()
        assert search.pick(mine).rows.tolist() == search.pick(plain).rows.tolist()


@pytest.mark.parametrize("name", backends.NAMES)
def test_every_backend_knows_nothing_one_duplicates_and_flat_columns(name: str, state: Path) -> None:
    made = backends.load(name, state=state)
    chance = np.random.default_rng(11)
    for columns in range(1, 7):
        for rows in (0, 1, 2, 50, 400):
            cloud = chance.integers(0, 4, (rows, columns)).astype(np.float64)
            if columns > 2:
                cloud[:, 1] = 5.0
            assert np.array_equal(made.front(cloud), PLAIN.front(cloud)), (rows, columns)
            assert np.array_equal(made.worse_than(cloud, cloud[:20]), PLAIN.worse_than(cloud, cloud[:20]))


def test_compiled_code_is_served_once_it_is_there_and_numpy_when_asked_for(state: Path) -> None:
    assert backends.best(state).name == backends.NUMBA
    assert backends.best(state, backends.NUMPY) is PLAIN


def test_a_wrong_dtype_is_an_error_and_not_a_compilation(state: Path) -> None:
    made = backends.load(backends.NUMBA, state=state)
    with pytest.raises(TypeError, match="No matching definition"):
        made.front(np.zeros((3, 2), dtype=np.float32))


def test_numpy_serves_when_something_is_amiss(
    state: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with caplog.at_level(logging.WARNING, logger="idlewild.engine"):
        assert backends.best(state, "abacus") is PLAIN
    assert "use one of numpy, moocore, numba" in caplog.text
    wrong = [
        Kernels("wrong", PLAIN.freshen, lambda vectors: np.ones(len(vectors), dtype=np.bool_), PLAIN.worse_than),
        Kernels("wrong", PLAIN.freshen, PLAIN.front, lambda vectors, points: np.ones(len(vectors), dtype=np.bool_)),
        Kernels("wrong", lambda *_: None, PLAIN.front, PLAIN.worse_than),
    ]
    for one in wrong:
        monkeypatch.setattr(backends, "load", lambda name, state, one=one: one)
        assert backends.best(state) is PLAIN


def test_without_the_packages_placement_is_complete() -> None:
    """The import of numba and moocore blocked, in a process of its own: all loops, the product's answers on a few markets."""
    code = (
        "import sys; sys.modules['numba'] = None; sys.modules['moocore'] = None\n"
        "import pytest\n"
        "sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', 'tests/scheduling/domain/test_kernels.py',"
        " 'tests/scheduling/domain/test_summaries.py']))"
    )
    environment = {"IDLEWILD_TEST_NO_DB": "1", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]


def test_a_blocked_package_counts_as_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(backends, "find_spec", lambda name: None)
    assert [backends.installed(name) for name in backends.NAMES] == [True, False, False]
    assert backends.best(tmp_path) is PLAIN
