"""A process serves with compiled loops once they are there, and says what it does."""

from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from portal.celery import start_engine
from scheduling.gateways import backends
from scheduling.selectors import kept
from scheduling.services import backend


def test_warming_compiles_and_the_next_process_serves_with_it(
    settings: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.STATE_DIR = tmp_path
    try:
        assert backend.start() != backends.NUMBA
        call_command("warm")
        assert "are compiled" in capsys.readouterr().out
        start_engine()
        assert kept._USED.kernels.name == backends.NUMBA
        settings.IDLEWILD_ENGINE = "numpy"
        assert backend.start() == backends.NUMPY
    finally:
        kept.use(backends.load(backends.NUMPY))
    monkeypatch.setattr(backends, "find_spec", lambda name: None)
    assert backend.warm().startswith("numba is not installed")
