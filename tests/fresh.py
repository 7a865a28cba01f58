"""`make fresh`: a newcomer's first hour, measured. A clean clone, an empty HOME; then `./dev up --check` twice and `./dev test`.

    python -m tests.fresh [--case root|plain|closed] [--no-tests]

| case | who and where |
|---|---|
| root | as root, the clone in a folder that all may enter |
| closed | as root, the clone below a 0700 folder: the database's account cannot enter it |
| plain | as the account `nobody`, with a HOME of its own |

It is not part of `./dev test`: it would call itself.
"""

import argparse
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.sources import ROOT

CASES = ("root", "closed", "plain")
LIMITS_S = {"first": 480.0, "second": 90.0, "test": 900.0}
KEPT = ("LANG", "LC_ALL", "SSL_CERT_FILE", "PIP_CERT", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")


def environment(home: Path, *, plain: bool = False) -> dict[str, str]:
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    path = (
        "/usr/local/bin:/usr/bin:/bin" if plain else os.environ["PATH"]
    )  # root's own programs may lie in a closed home
    return {
        **kept,
        "HOME": str(home),
        "PATH": path,
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_CACHE_HOME": str(home / "cache"),
    }


def run(words: list[str], clone: Path, home: Path, who: dict[str, Any], log: Path) -> tuple[int, float]:
    began = time.monotonic()
    with log.open("ab") as out:
        code = subprocess.run(
            words,
            cwd=clone,
            env=environment(home, plain=bool(who)),
            stdout=out,
            stderr=subprocess.STDOUT,
            check=False,
            **who,
        ).returncode
    return code, time.monotonic() - began


def one_case(case: str, *, tests: bool) -> bool:
    base = Path(tempfile.mkdtemp(prefix=f"idlewild-fresh-{case}-"))
    base.chmod(0o700 if case == "closed" else 0o755)
    clone, home, log = base / "idlewild", base / "home", base / "log"
    home.mkdir()
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    who: dict[str, Any] = {}
    if case == "plain":
        account = pwd.getpwnam("nobody")
        for folder, names, files in os.walk(base):
            for name in [".", *names, *files]:
                os.chown(Path(folder) / name, account.pw_uid, account.pw_gid, follow_symlinks=False)
        who = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    steps = [
        ("first", ["./dev", "up", "--check", "--port", "8071"]),
        ("second", ["./dev", "up", "--check", "--demo", "--port", "8071"]),
    ]
    if tests:
        steps.append(("test", ["./dev", "test", "-q"]))
    good = True
    for name, words in steps:
        code, seconds = run(words, clone, home, who, log)
        fine = code == 0 and seconds <= LIMITS_S[name]
        good = good and fine
        print(
            f"{case:7} {name:7} {' '.join(words):45} exit {code}  {seconds:6.0f} s  (≤ {LIMITS_S[name]:.0f} s)  {'ok' if fine else 'NOT OK'}",
            flush=True,
        )
    subprocess.run(
        ["./dev", "reset", "--yes"],
        cwd=clone,
        env=environment(home, plain=bool(who)),
        check=False,
        stdout=subprocess.DEVNULL,
        **who,
    )
    if good:
        shutil.rmtree(base)
    else:
        print(f"{case:7} log: {log}")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--case", choices=CASES, action="append")
    parser.add_argument("--no-tests", action="store_true")
    wanted = parser.parse_args()
    cases = wanted.case or ([*CASES] if os.geteuid() == 0 else ["plain"])
    if os.geteuid() != 0:
        print("not root: only as the present user")
    return 0 if all([one_case(case, tests=not wanted.no_tests) for case in cases]) else 1


if __name__ == "__main__":
    sys.exit(main())
