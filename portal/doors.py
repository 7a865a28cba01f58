"""The doors that belong to no business: health, readiness, and our own wheels.

``/healthz`` says whether this process can do its work: 503 without PostgreSQL; without Redis it is well, and says so. ``/readyz`` adds that the tables are as
this code wants them. ``/get/`` serves the wheels of agent and client, so a node needs nothing but this address.
"""

import re

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import FileResponse, Http404, HttpRequest, HttpResponse, JsonResponse

from portal import softstate

WHEEL = re.compile(r"idlewild_(agent|client)-[0-9A-Za-z.+_]+-py3-none-any\.whl")


def _database_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        connection.close()
        return False
    return True


def healthz(request: HttpRequest) -> HttpResponse:
    database = _database_answers()
    state = {
        "status": "ok" if database else "down",
        "database": "up" if database else "down",
        "redis": "up" if softstate.alive() else "down",
    }
    return JsonResponse(state, status=200 if database else 503, headers={"Cache-Control": "no-store"})


def readyz(request: HttpRequest) -> HttpResponse:
    if not _database_answers():
        return JsonResponse({"status": "down", "database": "down"}, status=503)
    executor = MigrationExecutor(connection)
    missing = [
        f"{migration.app_label}.{migration.name}"
        for migration, _ in executor.migration_plan(executor.loader.graph.leaf_nodes())
    ]
    return JsonResponse(
        {"status": "migrate" if missing else "ready", "missing": missing}, status=503 if missing else 200
    )


def get_index(request: HttpRequest) -> HttpResponse:
    """The wheels there are, as links a `pip install --find-links` understands."""
    folder = settings.IDLEWILD_GET_DIR
    names = sorted(path.name for path in folder.glob("*.whl")) if folder.is_dir() else []
    lines = "".join(f'<li><a href="/get/{name}">{name}</a></li>' for name in names if WHEEL.fullmatch(name))
    return HttpResponse(f"<!doctype html><title>Idlewild: wheels</title><ul>{lines}</ul>")


def get_wheel(request: HttpRequest, name: str) -> FileResponse:
    path = settings.IDLEWILD_GET_DIR / name
    if not WHEEL.fullmatch(name) or not path.is_file():
        raise Http404(name)
    return FileResponse(path.open("rb"), as_attachment=True, filename=name, content_type="application/zip")
