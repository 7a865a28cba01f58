"""What agents say, as plain values: they fit the protocols of marketplace.services, as the wire's messages do."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SomeDevice:
    id: str
    kind: str = "nvidia"
    model: str = "A100-80GB"
    memory_mib: int = 81_920
    driver: str = "550.1"
    virtual: bool = False


@dataclass(frozen=True)
class SomeHardware:
    cores_milli: int = 8_000
    memory_mib: int = 32_768
    disk_gib: int = 200
    arch: str = "x86_64"
    machine_cores: int = 16
    cpu_model: str = "Example 9000"
    system: str = "Debian 12"
    devices: Sequence[SomeDevice] = ()


@dataclass(frozen=True)
class SomeCheck:
    name: str
    ok: bool = True
    detail: str = ""
    fix: str = ""
    skipped: bool = False


@dataclass(frozen=True)
class SomeSelfTest:
    isolation: str = "full"
    executor: str = "bwrap"
    cgroups: str = "v2"
    checks: Sequence[SomeCheck] = (SomeCheck("sandbox"), SomeCheck("freeze"))
    note: str = ""


@dataclass(frozen=True)
class SomeMetric:
    name: str
    unit: str = "gflops"
    value: float = 100.0
    p95: float = 99.0
    p99: float = 98.0
    cv_ppm: int = 20_000
    clean_ppm: int = 990_000
    passes: int = 3
    p50_ms: float = 0.0
    p95_ms: float = 0.0
    p99_ms: float = 0.0


@dataclass(frozen=True)
class SomeReport:
    suite: str = "cpu-1"
    short: bool = False
    stable: bool = True
    hardware_hash: str = "0" * 64
    threads: int = 8
    kernel_library: str = "openblas"
    versions: dict[str, str] = field(default_factory=dict)
    runs: Sequence[str] = ()
    metrics: Sequence[SomeMetric] = (
        SomeMetric("gemm_1024", value=120.0),
        SomeMetric("triad", unit="gb_s", value=18.0),
        SomeMetric("stream", unit="gb_s", value=1.25),
    )


def cards(count: int, *, model: str = "A100-80GB", virtual: bool = False) -> tuple[SomeDevice, ...]:
    """`count` cards of one model; virtual ones carry the model `virtual`."""
    if virtual:
        return tuple(SomeDevice(f"virtual-{n}", "virtual", "virtual", 16_384, "", True) for n in range(count))
    return tuple(SomeDevice(f"GPU-{n}", model=model) for n in range(count))
