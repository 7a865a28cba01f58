"""Compiles the engine's loops, so that no cycle ever waits for it: run it at deployment, after the packages changed.

::

    manage.py warm
"""

from typing import Any

from django.core.management.base import BaseCommand

from scheduling.services import backend


class Command(BaseCommand):
    help = "Compiles the engine's loops (extra `fast`) and tries them; workers started afterwards use them."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(backend.warm())
