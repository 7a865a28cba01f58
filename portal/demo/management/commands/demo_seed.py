"""`manage.py demo_seed`: fill the demo market once, and leave the four nodes' tokens for the supervisor.

`./dev up` runs it on a fresh database. It calls ``portal.demo.seed.seed(now=…, password=…)``, which works through the services and answers
with the nodes to start: a list of {"token", "label"}. They go to STATE/demo/nodes.json (0600), from where `portal.stack.nodes` takes them. The
password of all demo sign-ins is in STATE/demo-password.
"""

import json
import os
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from portal import clock, ids
from portal.demo import seed

PASSWORD_LENGTH = 20


def private_file(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)


class Command(BaseCommand):
    help = "Fills the demo market (embedded profile only) and writes the enrolment tokens of its four nodes."

    def handle(self, **options: Any) -> None:
        password_file = settings.STATE_DIR / "demo-password"
        if not password_file.exists():
            private_file(password_file, ids.token(PASSWORD_LENGTH) + "\n")
        made = seed.seed(now=clock.now(), password=password_file.read_text().strip())
        private_file(settings.STATE_DIR / "demo" / "nodes.json", json.dumps(made, indent=1))
