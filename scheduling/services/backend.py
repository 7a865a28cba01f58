"""With which loops a process searches.

`manage.py warm` compiles the loops once per machine; a worker calls :func:`start` when it begins and serves with what is
compiled, else with NumPy. Nothing is ever compiled in a cycle or a request.
"""

from django.conf import settings

from scheduling.gateways import backends
from scheduling.selectors import kept


def start() -> str:
    """Hand the loops of the quickest usable backend to this process; its name."""
    made = backends.best(settings.STATE_DIR, settings.IDLEWILD_ENGINE)
    kept.use(made)
    return made.name


def warm() -> str:
    """Compile what can be compiled; a sentence about it."""
    if not backends.installed(backends.NUMBA):
        return "numba is not installed (extra `fast`): NumPy serves, complete but slower for large fronts."
    backends.warm(settings.STATE_DIR)
    return f"The engine's loops are compiled in {settings.STATE_DIR}; workers started from now on use them."
