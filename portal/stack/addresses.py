"""Addresses of servers in the form each library wants them. One function per server, so no two parts read a URL differently.

PostgreSQL: libpq's own parser, because others leave quoted socket folders (``%2Fvar%2Flib``) quoted.
Redis and Valkey: one URL gives the forms for the cache and soft state, for Celery's broker and for the channel layer.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit, urlunsplit

from psycopg.conninfo import conninfo_to_dict

ENGINE = "django.db.backends.postgresql"
_DJANGO_NAMES = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}


def database(url: str) -> dict[str, Any]:
    """A Django DATABASES entry of a PostgreSQL URL: libpq's words to Django's, everything else to OPTIONS."""
    entry: dict[str, Any] = {"ENGINE": ENGINE, "OPTIONS": {}}
    for word, value in conninfo_to_dict(url).items():
        if value is None:
            continue
        if word in _DJANGO_NAMES:
            entry[_DJANGO_NAMES[word]] = str(value)
        else:
            entry["OPTIONS"][word] = int(value) if word == "connect_timeout" else value
    return entry


@dataclass(frozen=True)
class RedisForms:
    """One server in the three spellings."""

    client: str
    broker: str
    channel_host: dict[str, Any]


def redis_forms(url: str) -> RedisForms:
    """The spellings of `url` (redis, rediss or unix)."""
    # socket_timeout None: with redis-py's default of 5 s the channel layer's own 5 s wait kills every idle websocket.
    channel_host = {"address": url, "socket_timeout": None}
    parts = urlsplit(url)
    if parts.scheme == "unix":
        number = parse_qs(parts.query).get("db", ["0"])[0]
        return RedisForms(
            client=url, broker=f"redis+socket://{parts.path}?virtual_host={number}", channel_host=channel_host
        )
    if parts.scheme in {"redis", "rediss"}:
        return RedisForms(client=url, broker=url, channel_host=channel_host)
    raise ValueError("REDIS_URL takes redis://host:6379/0, rediss://… or unix:///path/to/socket?db=0")


def with_database_number(url: str, number: int) -> str:
    """`url` with another database number: each test worker has its own."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return f"unix://{parts.path}?db={number}"
    return urlunsplit((parts.scheme, parts.netloc, f"/{number}", parts.query, ""))


def mail(url: str) -> tuple[str, dict[str, Any]]:
    """The mail backend and server of EMAIL_URL (``smtp://user:password@host:587?tls=1``); without one, each mail becomes a file."""
    nothing = {"host": "", "port": 25, "user": "", "password": "", "tls": False, "ssl": False}
    if not url:
        return "django.core.mail.backends.filebased.EmailBackend", nothing
    parts = urlsplit(url)
    if parts.scheme != "smtp" or not parts.hostname:
        raise ValueError("EMAIL_URL takes smtp://user:password@mail.example.org:587?tls=1")
    query = parse_qs(parts.query)
    return "django.core.mail.backends.smtp.EmailBackend", {
        "host": parts.hostname,
        "port": parts.port or 25,
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "tls": query.get("tls", ["0"])[0] == "1",
        "ssl": query.get("ssl", ["0"])[0] == "1",
    }
