"""`python -m client …`, and the installed `idlewild`."""

import os
import shutil
import sys

from .cli.app import start
from .words import t


def run() -> None:
    """The command; `idlewild agent …` is `idlewild-agent …`."""
    if sys.argv[1:2] == ["agent"]:
        program = shutil.which("idlewild-agent")
        if program is None:
            sys.stderr.write(
                t("idlewild-agent is not installed here; install the agent's wheel from the portal's page /get/.")
                + "\n"
            )
            sys.exit(2)
        os.execv(program, ["idlewild-agent", *sys.argv[2:]])  # noqa: S606 the same user's own program
    sys.exit(start())


if __name__ == "__main__":
    run()
