"""How the client speaks to the portal: one connection pool, time limits on everything, and repeats that cannot do a
thing twice.

Every POST carries an Idempotency-Key that was made before its first try and is kept over all repeats, so a lost
answer never means a second job. Repeated are: a connection that fails, 429, 502, 503, 504, and 409
`idempotency_busy`, each after the portal's Retry-After or a growing pause, until `patience_s` is over. Anything else
is an answer and is raised as the typed error of `errors`.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

from .errors import ClientError, Unreachable, from_answer
from .words import t

AGAIN = frozenset({429, 502, 503, 504})
LONGEST_PAUSE_S = 3.0
FIRST_PAUSE_S = 0.2
USER_AGENT = "idlewild-client/0.1.0"


def new_key() -> str:
    """An Idempotency-Key: 128 random bits."""
    return os.urandom(16).hex()


def masked(key: str) -> str:
    """`idw_<prefix>_…`: enough to know which key, useless to anybody else."""
    parts = key.split("_")
    return "_".join([*parts[:2], "…"]) if len(parts) >= 3 else "…"


@dataclass(frozen=True)
class Answer:
    """A success: its body as JSON (None if empty) and its headers."""

    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def replayed(self) -> bool:
        return self.headers.get("idempotent-replayed", "").lower() == "true"


def _is_loopback(url: str) -> bool:
    return (urlsplit(url).hostname or "") in {"localhost", "127.0.0.1", "::1"}


class Http:
    """One portal, one key. Not for several threads."""

    def __init__(
        self,
        *,
        url: str,
        key: str = "",
        language: str = "en",
        organisation: str = "",
        patience_s: float = 20.0,
        read_timeout_s: float = 30.0,
        show: Callable[[str], None] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = url.rstrip("/")
        self.key = key
        self.patience_s = patience_s
        self._show = show
        self._sleep = sleep
        headers = {"User-Agent": USER_AGENT, "Accept": "application/json", "Accept-Language": language}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        if organisation:
            headers["X-Idlewild-Organisation"] = organisation
        self._client = httpx.Client(
            headers=headers,
            timeout=httpx.Timeout(read_timeout_s, connect=5.0),
            follow_redirects=False,
            trust_env=not _is_loopback(self.url),  # a proxy of the machine does not know this machine's portal
        )

    def close(self) -> None:
        self._client.close()

    def get(self, path: str, params: Mapping[str, Any] | None = None) -> Answer:
        return self.send("GET", path, params=params)

    def post(self, path: str, body: Any = None, *, key: str = "") -> Answer:
        return self.send(
            "POST", path, body=body if body is not None else {}, headers={"Idempotency-Key": key or new_key()}
        )

    def send(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request with its repeats."""
        request = self._client.build_request(
            method,
            self.url + path,
            content=None if body is None else json.dumps(body, ensure_ascii=False).encode(),
            params={k: v for k, v in (params or {}).items() if v is not None and v != ""},
            headers={**(headers or {}), **({} if body is None else {"Content-Type": "application/json"})},
        )
        if self._show:
            self._show(self.as_curl(request))
        give_up = time.monotonic() + self.patience_s
        pause = FIRST_PAUSE_S
        while True:
            try:
                answer = self._once(request)
            except httpx.InvalidURL as problem:
                raise ClientError(str(problem), code="bad_url") from problem
            except httpx.TransportError as problem:
                last: ClientError = self._unreachable(problem)
                wait = pause
            except _Later as later:
                last, wait = later.error, pause if later.after is None else later.after
            else:
                return answer
            if time.monotonic() + wait > give_up:
                raise last
            self._sleep(wait)
            pause = min(pause * 2, LONGEST_PAUSE_S)

    def _unreachable(self, problem: Exception) -> Unreachable:
        return Unreachable(
            t(
                "{url} does not answer ({problem}). A job that was submitted goes on; see `idlewild ps`.",
                url=self.url,
                problem=str(problem) or type(problem).__name__,
            )
        )

    def _once(self, request: httpx.Request) -> Answer:
        response = self._client.send(request)
        body = _json(response)
        if response.is_success:
            return Answer(response.status_code, body, {k.lower(): v for k, v in response.headers.items()})
        after = _seconds(response.headers.get("Retry-After"))
        error = from_answer(response.status_code, _problem(response, body), retry_after=after)
        if response.status_code in AGAIN or error.code == "idempotency_busy":
            raise _Later(error, after)
        raise error

    @contextmanager
    def download(self, path: str, params: Mapping[str, Any] | None = None) -> Iterator[httpx.Response]:
        """A response whose bytes are read by the caller; redirects to the object store are followed without our key."""
        request = self._client.build_request(
            "GET", self.url + path, params={k: v for k, v in (params or {}).items() if v}
        )
        if self._show:
            self._show(self.as_curl(request))
        try:
            response = self._client.send(request, stream=True, follow_redirects=True)
        except httpx.TransportError as problem:
            raise self._unreachable(problem) from problem
        try:
            if not response.is_success:
                response.read()
                raise from_answer(response.status_code, _problem(response, _json(response)))
            yield response
        finally:
            response.close()

    def as_curl(self, request: httpx.Request) -> str:
        """The request as a line for a shell, the key masked."""
        words = ["curl", "-sS", "-X", request.method, str(request.url)]
        for name in ("authorization", "idempotency-key", "if-match", "content-type", "accept-language"):
            value = request.headers.get(name)
            if value:
                shown = f"Bearer {masked(self.key)}" if name == "authorization" else value
                words += ["-H", f"{name.title()}: {shown}"]
        if request.content:
            words += ["--data", request.content.decode()]
        return shlex.join(words)


class _Later(Exception):
    """An answer that asks to come again."""

    def __init__(self, error: ClientError, after: float | None) -> None:
        super().__init__(error.detail)
        self.error = error
        self.after = after


def _seconds(text: str | None) -> float | None:
    try:
        return max(0.0, float(text)) if text else None
    except ValueError:
        return None


def _json(response: httpx.Response) -> Any:
    if not response.content or "json" not in response.headers.get("content-type", ""):
        return None
    try:
        return response.json()
    except ValueError:
        return None


def _problem(response: httpx.Response, body: Any) -> dict[str, Any]:
    if isinstance(body, dict):
        return body
    where = response.headers.get("location")
    if where:
        return {
            "code": "redirected",
            "detail": t("The portal redirects to {where}; use that address with `idlewild login`.", where=where),
        }
    return {"code": f"http_{response.status_code}", "detail": f"HTTP {response.status_code} {response.reason_phrase}"}
