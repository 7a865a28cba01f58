"""A real browser against a real server: uvicorn in a thread, PostgreSQL and Valkey of the test run, headless Chromium.

Any console error, page error or CSP report fails the test; an expected one is named with `console_guard.expect(…)`.
"""

import os

os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"  # sync Playwright keeps a loop running in this thread

import re
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client

from tests.cast import PASSWORD, Person

WIDTHS = (320, 768, 1400)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find_browser() -> str | None:
    return os.environ.get("IDLEWILD_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if find_browser() or os.environ.get("CI"):
        return
    loud = pytest.mark.skip(reason="no Chromium found: install it or name it in IDLEWILD_CHROMIUM")
    for item in items:
        if "e2e" in item.path.parts:
            item.add_marker(loud)


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    return {
        "executable_path": find_browser(),
        "args": [
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ],
    }


@pytest.fixture(scope="session")
def asgi_url(django_db_setup: None) -> Iterator[str]:
    """The product's own ASGI application, served to the browser from a thread of this process."""
    import uvicorn
    from django.db import connections

    from portal.asgi import application

    connections["default"].settings_dict["CONN_MAX_AGE"] = 0  # threads of the server leave no connection behind

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = uvicorn.Server(
        uvicorn.Config(application, host="127.0.0.1", port=port, lifespan="off", log_level="warning")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"http://localhost:{port}"
    server.should_exit = True
    thread.join(timeout=10)


@pytest.fixture
def live(asgi_url: str, transactional_db: None) -> str:
    """The server, with a database whose rows are committed so that it sees them."""
    return asgi_url


class Guard:
    """Collects what the browser complained about."""

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self.expected: list[str] = []

    def expect(self, pattern: str) -> None:
        self.expected.append(pattern)

    def watch(self, page: Any) -> None:
        page.on("console", lambda message: message.type == "error" and self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    @property
    def unexpected(self) -> list[str]:
        return [text for text in self.complaints if not any(re.search(pattern, text) for pattern in self.expected)]


@pytest.fixture
def console_guard() -> Iterator[Guard]:
    guard = Guard()
    yield guard
    assert guard.unexpected == []


@pytest.fixture
def open_as(live: str, browser: Any, console_guard: Guard) -> Iterator[Callable[..., Any]]:
    """A page of one of the cast, signed in: ``open_as(ada, width=320, lang="zh-hans", theme="dark")``."""
    contexts = []

    def opened(
        who: Person | None = None, *, width: int = 1400, height: int = 900, lang: str = "en", theme: str = "light"
    ) -> Any:
        context = browser.new_context(
            base_url=live, viewport={"width": width, "height": height}, locale="zh-CN" if lang == "zh-hans" else "en-GB"
        )
        contexts.append(context)
        cookies = [
            {"name": "django_language", "value": lang, "url": live},
            {"name": "theme", "value": theme, "url": live},
        ]
        if who is not None:
            client = Client()  # one a page: signing somebody else in with the same client would end the first session
            client.force_login(who.user, backend="django.contrib.auth.backends.ModelBackend")
            cookies.append({"name": "sessionid", "value": client.cookies["sessionid"].value, "url": live})
        context.add_cookies(cookies)
        page = context.new_page()
        console_guard.watch(page)
        return page

    yield opened
    for context in contexts:
        for page in context.pages:
            page.goto("about:blank")
        context.close()
    time.sleep(0.3)  # requests under way end before the database is taken away


@pytest.fixture
def password() -> str:
    return PASSWORD
