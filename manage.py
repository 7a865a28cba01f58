#!/usr/bin/env python3
"""Django's commands, with ours beside them. Of the embedded services it expects that they run: `./dev up`, or `./dev manage …` for one command."""

import os
import sys

# These neither need nor touch a database (or, as `up`, bring it along).
OFFLINE = {"check", "collectstatic", "help", "makemigrations", "spectacular", "version", "--version", "--help", "-h"}


def embedded_services_missing(command: str) -> bool:
    """True when the embedded profile is asked for something that needs its servers, and they do not run."""
    from portal.stack import places

    embedded = os.environ.get("IDLEWILD_PROFILE", "embedded") == "embedded" and not os.environ.get("DATABASE_URL")
    if not embedded or command in OFFLINE:
        return False
    return not (places.postgres_socket_dir(places.state_dir()) / ".s.PGSQL.5432").exists()


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    if sys.argv[1:2] == ["up"]:  # needs no Django itself: a second less until the first page
        from portal.stack import supervisor

        return supervisor.main(sys.argv[2:])
    if embedded_services_missing(sys.argv[1] if len(sys.argv) > 1 else "help"):
        sys.stderr.write(
            "embedded services are not running: ./dev up, or ./dev manage " + " ".join(sys.argv[1:]) + "\n"
        )
        return 1
    from django.core.management import execute_from_command_line

    from portal import celery  # noqa: F401  the app whose broker the outbox nudges

    execute_from_command_line(sys.argv)
    return 0


if __name__ == "__main__":
    sys.exit(main())
