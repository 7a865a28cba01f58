"""The operator suite: shape, sign and monotony. Never absolute speed: that is what it measures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent import benchmark, probe
from agent.protocol import FingerprintReport
from tests.agent.conftest import ROOT


def test_every_operator_computes_and_takes_time() -> None:
    made = benchmark.operators(1 << 20)
    assert [operator.name for operator in made] == [
        *[f"gemm_{n}" for n in (256, 512, 1024, 2048)],
        *[f"conv_{n}" for n in (1, 8, 32)],
        *[f"block_{n}" for n in (1, 8, 32)],
        "copy",
        "triad",
    ]
    work = {operator.name: operator.work for operator in made}
    assert work["gemm_256"] < work["gemm_512"] < work["gemm_1024"]
    assert work["block_1"] < work["block_8"] < work["block_32"]
    for operator in made:
        if operator.name not in ("gemm_2048", "block_32"):
            timings = benchmark.Timings()
            benchmark.measure(operator, 0.0, timings, 1)
            one = benchmark.metric(operator, timings, 1, 0.5)
            assert one["value"] > 0
            assert one["passes"] == 1


def test_half_a_core_is_half_the_compute_and_all_the_bandwidth() -> None:
    gemm, copy = benchmark.operators(1 << 16)[0], benchmark.operators(1 << 16)[-2]
    timings = benchmark.Timings(clean=[0.5], all=[0.5])
    assert benchmark.metric(gemm, timings, 1, 0.5)["value"] == round(
        benchmark.metric(gemm, timings, 1, 1.0)["value"] / 2, 4
    )
    assert benchmark.metric(copy, timings, 1, 0.5) == benchmark.metric(copy, timings, 1, 1.0)


def test_the_short_suite_is_a_valid_report_and_waits_for_its_turn(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "agent.benchmark", "--short", "--threads", "1", "--turn", tmp_path.as_posix()]
    before = time.monotonic()
    both = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) for _ in range(2)]
    reports = [FingerprintReport.from_wire(json.loads(process.communicate()[0])) for process in both]
    assert time.monotonic() - before > sum(report.took_ms for report in reports) / 1000
    for report in reports:
        assert report.short
        assert report.stable
        assert report.threads == 1
        assert len(report.metrics) == 12
        assert all(metric.value >= metric.p95 >= metric.p99 > 0 for metric in report.metrics)
    assert reports[0].hardware_hash == reports[1].hardware_hash == benchmark.hardware_hash()


def test_distorting_variables_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {**os.environ, "OPENBLAS_CORETYPE": "Prescott", "OPENBLAS_NUM_THREADS": "7"}
    code = "import sys; from agent import benchmark; benchmark.suite = lambda **k: dict(__import__('os').environ); benchmark.main(['--threads', '2'])"
    started_anew = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    told = json.loads(started_anew.stdout)
    assert "OPENBLAS_CORETYPE" not in told
    assert told["OPENBLAS_NUM_THREADS"] == "2"


def test_hardware_is_a_share_of_the_machine(tmp_path: Path) -> None:
    whole, half = probe.hardware(None, tmp_path, ()), probe.hardware(500, tmp_path, ())
    assert whole.cores_milli == probe.machine_cores() * 1000
    assert half.cores_milli == 500
    assert half.memory_mib == pytest.approx(whole.memory_mib * 500 / whole.cores_milli, abs=2)
    assert probe.hardware(10**9, tmp_path, ()).cores_milli == whole.cores_milli


def test_the_inventory_of_the_system_tree() -> None:
    found = probe.runtime()
    assert found["os"]
    assert found["arch"]
    assert all(isinstance(value, str) and value for value in found.values())
    assert set(found) - {"os", "arch", "kernel", "platform"} <= set(probe.PROGRAMS)
