"""What the node has: hardware for sale, and the inventory of its system tree, which is what a job finds in its sandbox."""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from .protocol import DeviceInfo, Hardware

RESERVED_MEMORY_PPM = 100_000  # kept for the system and the agent
SANDBOX_PATH = "/usr/bin:/bin"

# Programs whose versions tenants ask for, and how each tells it.
PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "python": ("python3", "--version"),
    "gcc": ("gcc", "--version"),
    "clang": ("clang", "--version"),
    "make": ("make", "--version"),
    "cmake": ("cmake", "--version"),
    "go": ("go", "version"),
    "rustc": ("rustc", "--version"),
    "node": ("node", "--version"),
    "ruby": ("ruby", "--version"),
    "perl": ("perl", "-e", "print $^V"),
    "R": ("R", "--version"),
    "julia": ("julia", "--version"),
    "java": ("java", "-version"),
    "nvcc": ("nvcc", "--version"),
    "mpirun": ("mpirun", "--version"),
    "ffmpeg": ("ffmpeg", "-version"),
    "blender": ("blender", "--version"),
    "git": ("git", "--version"),
    "bash": ("bash", "--version"),
    "curl": ("curl", "--version"),
    "sqlite": ("sqlite3", "--version"),
}
_VERSION = re.compile(r"\d+(?:\.\d+)+")


def _first(path: str, pattern: str) -> str:
    try:
        found = re.search(pattern, Path(path).read_text(errors="replace"), re.MULTILINE)
    except OSError:
        return ""
    return found[1].strip().strip('"') if found else ""


def machine_cores() -> int:
    return len(os.sched_getaffinity(0))


def machine_memory_mib() -> int:
    return int(_first("/proc/meminfo", r"^MemTotal:\s+(\d+)") or "0") // 1024


def system_name() -> str:
    return _first("/etc/os-release", r"^PRETTY_NAME=(.*)$") or platform.system()


def hardware(cores_milli: int | None, disk_of: Path, devices: tuple[DeviceInfo, ...]) -> Hardware:
    """The share for sale: `cores_milli` of the machine (None: all), memory in proportion, free disk in proportion."""
    cores = machine_cores()
    share = min(cores_milli or cores * 1000, cores * 1000)
    memory = machine_memory_mib() * (1_000_000 - RESERVED_MEMORY_PPM) // 1_000_000
    free_gib = shutil.disk_usage(disk_of).free >> 30
    return Hardware(
        cores_milli=share,
        memory_mib=max(1, memory * share // (cores * 1000)),
        disk_gib=free_gib * share // (cores * 1000),
        arch=platform.machine(),
        machine_cores=cores,
        cpu_model=_first("/proc/cpuinfo", r"^model name\s*:\s*(.*)$")[:200],
        hostname=socket.gethostname()[:255],
        system=system_name()[:200],
        kernel=platform.release()[:200],
        devices=devices,
    )


def runtime() -> dict[str, str]:
    """Versions of what the system tree offers; a program that is not there, or doesn't answer in 3 s, is left out."""
    found = {"os": system_name(), "arch": platform.machine(), "kernel": platform.release()}
    libc = sysconfig.get_config_var("HOST_GNU_TYPE")
    if libc:
        found["platform"] = str(libc)
    for name, command in PROGRAMS.items():
        version = _version(command)
        if version:
            found[name] = version
    return found


def _version(command: tuple[str, ...]) -> str:
    program = shutil.which(command[0], path=SANDBOX_PATH)
    if program is None:
        return ""
    try:
        answer = subprocess.run(
            [program, *command[1:]],
            capture_output=True,
            text=True,
            timeout=3,
            check=False,
            stdin=subprocess.DEVNULL,
            env={"PATH": SANDBOX_PATH, "LC_ALL": "C"},
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    number = _VERSION.search(answer.stdout or answer.stderr)
    return number[0] if number else ""
