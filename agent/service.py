"""`enroll --up` as root on a machine with systemd: a service of its own that survives logout and reboot.

Jobs must survive a restart of the agent, so the unit kills only the agent itself (`KillMode=process`) and delegates its
control groups. Whether a *real* systemd lets supervisors survive a restart in pure v2 has not been tried (systemd 24064); until
then drain before an upgrade.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

from .config import Config

UNIT = Path("/etc/systemd/system/idlewild-agent.service")


def unit(python: Path, module: str, config: Config) -> str:
    arguments = [str(python), "-m", module, "up", "--state-dir", str(config.state)]
    arguments += ["--executor", config.executor, "--slot-uid-base", str(config.slot_uid_base)]
    if config.cores_milli is not None:
        arguments += ["--cores", f"{config.cores_milli // 1000}.{config.cores_milli % 1000:03d}"]
    if config.short_suite:
        arguments.append("--short-suite")
    if config.probe_listen:
        arguments += ["--probe-listen", config.probe_listen]
    if config.probe_address:
        arguments += ["--probe-address", config.probe_address]
    return f"""[Unit]
Description=Idlewild agent
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={" ".join(arguments)}
Restart=always
RestartSec=2
Delegate=yes
KillMode=process
OOMScoreAdjust=-900

[Install]
WantedBy=multi-user.target
"""


def has_systemd() -> bool:
    return os.geteuid() == 0 and Path("/run/systemd/system").is_dir() and shutil.which("systemctl") is not None


def install(config: Config, say: Callable[[str], None]) -> bool:
    """False when this machine has no systemd, or we are not root: then the agent runs in the foreground."""
    if not has_systemd():
        say("no system service here (needs root and systemd): running in the foreground, Ctrl-C stops it")
        return False
    python, module = _own_environment(config, say)
    UNIT.write_text(unit(python, module, config))
    for command in (["daemon-reload"], ["enable", "--now", UNIT.name]):
        subprocess.run(["systemctl", *command], check=True)
    say(f"started as system service {UNIT.name}: systemctl status {UNIT.name}")
    return True


def _own_environment(config: Config, say: Callable[[str], None]) -> tuple[Path, str]:
    """A copy of what runs now in the state folder: `pipx run` works in a folder that is cleaned away."""
    target = config.state / "env"
    venv.create(target, with_pip=False, system_site_packages=False, clear=True)
    site = next((target / "lib").glob("python*")) / "site-packages"
    package = Path(__file__).resolve().parent
    for folder in dict.fromkeys(path for path in sys.path if path.endswith("site-packages")):
        shutil.copytree(folder, site, dirs_exist_ok=True, symlinks=True)
    if not (site / package.name).exists():
        shutil.copytree(package, site / package.name)
    say(f"installed into {target}")
    return target / "bin" / "python", package.name
