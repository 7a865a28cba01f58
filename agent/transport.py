"""HTTP to the portal: signing in, time-outs, and what each refusal means. Retrying is the runner's business.

Traps: httpx has no total time-out (a slow trickle of bytes resets its read time-out), so each call runs under one; and the
total time-out of a held sync must be longer than the hold, or no sync ever succeeds. Connecting gets at most half a renew
period. Redirects are not followed: a node secret goes to the portal and nowhere else.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import ipaddress
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from . import protocol as wire
from .addresses import is_public
from .protocol import Message, Problem, Received, Stream

A = TypeVar("A", bound=Message)

CALL_S = 10.0
CHUNK_S = 60.0
CONNECT_S = 5.0
REDIRECTS = 5


class Unreachable(Exception):
    """No answer, or one that says "later" (429, 5xx): try again. `retry_after_s` if the portal named a time."""

    def __init__(self, why: str, retry_after_s: float | None = None) -> None:
        super().__init__(why)
        self.retry_after_s = retry_after_s


class Refused(Exception):
    """A definite no. `status` and `problem.code` say what to do (table in protocol.py)."""

    def __init__(self, status: int, problem: Problem) -> None:
        super().__init__(f"{status} {problem.code}: {problem.detail}")
        self.status = status
        self.problem = problem

    @property
    def fenced(self) -> bool:
        return self.status == wire.STATUS_FENCED

    @property
    def superseded(self) -> bool:
        return self.problem.code == wire.Code.SUPERSEDED.value


class ForbiddenAddress(Exception):
    """An input's address that this node will not fetch from; the sentence says why."""


@dataclass(frozen=True)
class Sender:
    """What a call about an attempt needs besides the node's own sign-in."""

    lease_secret: str
    fence: int


@dataclass(frozen=True)
class Whole:
    """Size and hash of something that is sent in parts."""

    size: int
    sha256: str


class Portal:
    """The portal as seen from one node. `node` and `secret` are empty until enrolled."""

    def __init__(self, url: str, node: str = "", secret: str = "") -> None:
        self.url = url.rstrip("/")
        self.node = node
        self.secret = secret
        self.boot_id = ""
        self.incarnation = 0
        self.private_inputs = (
            False  # also fetch inputs from http and from private networks: tests, or a provider who wants it
        )
        self._client = httpx.AsyncClient(
            base_url=self.url,
            timeout=httpx.Timeout(None, connect=CONNECT_S),
            limits=httpx.Limits(max_connections=20, max_keepalive_connections=10, keepalive_expiry=30),
            headers={wire.HEADER_WIRE: str(wire.VERSION), "User-Agent": "idlewild-agent"},
            trust_env=True,
        )

    async def close(self) -> None:
        await self._client.aclose()

    def _headers(self, sender: Sender | None = None) -> dict[str, str]:
        headers = {}
        if self.node:
            headers["Authorization"] = wire.authorization(self.node, self.secret)
        if sender is not None:
            headers[wire.HEADER_LEASE] = sender.lease_secret
        return headers

    def _body_headers(self, sender: Sender) -> dict[str, str]:
        return {
            **self._headers(sender),
            wire.HEADER_BOOT: self.boot_id,
            wire.HEADER_INCARNATION: str(self.incarnation),
            wire.HEADER_FENCE: str(sender.fence),
        }

    async def post(
        self, path: str, message: Message, answer: type[A], *, timeout_s: float = CALL_S, sender: Sender | None = None
    ) -> A:
        response = await self._call(
            "POST", path, timeout_s, json=message.to_wire(), headers=self._headers(sender), params=None
        )
        return _read(response, answer)

    async def put_log(self, attempt: str, stream: Stream, offset: int, data: bytes, sender: Sender) -> Received:
        headers = {
            **self._body_headers(sender),
            "Content-Encoding": "gzip",
            "Content-Type": "application/octet-stream",
            wire.HEADER_SHA256: hashlib.sha256(data).hexdigest(),
        }
        body = gzip.compress(data, 1)
        path = wire.log_path(attempt, stream)
        response = await self._call("PUT", path, CHUNK_S, params={"offset": offset}, content=body, headers=headers)
        return _read(response, Received)

    async def put_output(
        self, attempt: str, name: str, offset: int, data: bytes, total: int, whole: str, sender: Sender
    ) -> Received:
        headers = {
            **self._body_headers(sender),
            "Content-Type": "application/octet-stream",
            wire.HEADER_SHA256: hashlib.sha256(data).hexdigest(),
            wire.HEADER_TOTAL: str(total),
        }
        if offset + len(data) == total:
            headers[wire.HEADER_WHOLE_SHA256] = whole
        path = wire.output_path(attempt, name)
        response = await self._call("PUT", path, CHUNK_S, params={"offset": offset}, content=data, headers=headers)
        return _read(response, Received)

    async def put_checkpoint(
        self, attempt: str, number: int, offset: int, data: bytes, whole: Whole, age_ms: int, sender: Sender
    ) -> Received:
        headers = {
            **self._body_headers(sender),
            "Content-Type": "application/octet-stream",
            wire.HEADER_SHA256: hashlib.sha256(data).hexdigest(),
            wire.HEADER_TOTAL: str(whole.size),
            wire.HEADER_WHOLE_SHA256: whole.sha256,
            wire.HEADER_AGE_MS: str(age_ms),
        }
        path = wire.checkpoint_path(attempt, str(number))
        response = await self._call("PUT", path, CHUNK_S, params={"offset": offset}, content=data, headers=headers)
        return _read(response, Received)

    async def get_checkpoint(self, attempt: str, id: str, offset: int, sender: Sender) -> AsyncIterator[bytes]:
        """The bytes of a stored checkpoint, from `offset` on."""
        headers = self._body_headers(sender)
        async for chunk in self.download(wire.checkpoint_path(attempt, id), offset, headers):
            yield chunk

    async def get_input(self, attempt: str, index: int, offset: int, sender: Sender) -> AsyncIterator[bytes]:
        """The bytes of an input that lies on the portal, from `offset` on."""
        headers = self._body_headers(sender)
        async for chunk in self.download(wire.input_path(attempt, index), offset, headers):
            yield chunk

    async def signed_bytes(self, path: str) -> AsyncIterator[bytes]:
        """A body of the portal for this node."""
        async for chunk in self.download(path, 0, self._headers()):
            yield chunk

    async def fetch(self, url: str, offset: int) -> AsyncIterator[bytes]:
        """A tenant's https address, without sign-in. Each hop is looked up once and must be public: else an input could
        read the provider's own network, or the cloud's metadata; the connection goes to the address that was checked."""
        for _ in range(REDIRECTS + 1):
            address, headers, server = await self._public(url)
            moved: list[str] = []
            async for chunk in self.download(address, offset, headers, server_name=server, moved=moved):
                yield chunk
            if not moved:
                return
            url = str(httpx.URL(url).join(moved[0]))
        raise ForbiddenAddress("too many redirects")

    async def _public(self, url: str) -> tuple[str, dict[str, str], str]:
        target = httpx.URL(url)
        if self.private_inputs:
            return url, {}, ""
        if target.scheme != "https" or not target.host:
            raise ForbiddenAddress("only https addresses are fetched")
        port = target.port or 443
        try:
            found = await asyncio.get_running_loop().getaddrinfo(target.host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise Unreachable(f"{target.host}: {error}") from error
        addresses = [ipaddress.ip_address(entry[4][0]) for entry in found]
        if not addresses or not all(is_public(address) for address in addresses):
            raise ForbiddenAddress(f"{target.host} is not on the public network")
        pinned = target.copy_with(host=str(addresses[0]))
        return str(pinned), {"Host": target.netloc.decode()}, target.host

    async def download(
        self,
        url: str,
        offset: int,
        headers: dict[str, str] | None = None,
        *,
        server_name: str = "",
        moved: list[str] | None = None,
    ) -> AsyncIterator[bytes]:
        """Stream a body; a dropped connection raises Unreachable, and the caller goes on at its offset. A redirect is
        noted in `moved` (if given), never followed here. `server_name`: whose certificate is expected at a pinned address."""
        asked = dict(headers or {})
        if offset:
            asked["Range"] = f"bytes={offset}-"
        extensions = {"sni_hostname": server_name} if server_name else {}
        try:
            async with self._client.stream("GET", url, headers=asked, extensions=extensions) as response:
                if moved is not None and response.is_redirect and "location" in response.headers:
                    moved.append(response.headers["location"])
                    return
                if response.status_code >= 300:
                    await asyncio.wait_for(response.aread(), CALL_S)
                    _raise(response)
                skip = offset if offset and response.status_code != 206 else 0
                chunks = response.aiter_bytes(256 * 1024)
                while True:
                    try:
                        chunk = await asyncio.wait_for(chunks.__anext__(), CHUNK_S)
                    except StopAsyncIteration:
                        return
                    if skip:
                        dropped = min(skip, len(chunk))
                        chunk, skip = chunk[dropped:], skip - dropped
                    yield chunk
        except (httpx.HTTPError, asyncio.TimeoutError, OSError) as error:
            raise Unreachable(f"{type(error).__name__}: {error}") from error

    async def _call(self, method: str, path: str, timeout_s: float, **request: Any) -> httpx.Response:
        try:
            response = await asyncio.wait_for(self._client.request(method, path, **request), timeout_s)
        except (httpx.HTTPError, asyncio.TimeoutError, OSError) as error:
            raise Unreachable(f"{type(error).__name__}: {error}".rstrip(": ")) from error
        if response.status_code >= 300:
            _raise(response)
        return response


def _raise(response: httpx.Response) -> None:
    status = response.status_code
    if status == 429 or status >= 500 or status < 400:
        raise Unreachable(f"answered {status}", _retry_after(response))
    try:
        problem = Problem.from_wire(json.loads(response.content))
    except ValueError:
        problem = Problem(detail=response.text[:500], status=status)
    raise Refused(status, problem)


def _retry_after(response: httpx.Response) -> float | None:
    try:
        return min(60.0, max(0.0, float(response.headers["Retry-After"])))
    except (KeyError, ValueError):
        return None


def _read(response: httpx.Response, answer: type[A]) -> A:
    try:
        return answer.from_wire(json.loads(response.content))
    except ValueError as error:  # also BadMessage: the portal speaks another wire
        raise Unreachable(f"unreadable answer: {error}") from error


def pause_s(failures: int, *, busy: bool, frozen: bool, draw: float, asked: float | None = None) -> float:
    """How long to wait after the `failures`-th failure in a row; `draw` in [0, 1) makes nodes come back apart.

    With leases the next try comes within a second; at once while a job is frozen (each tenth counts between 410 and the
    end of the job), but below the portal's limit of ten calls a second. Idle nodes: full jitter up to a minute.
    """
    if frozen:
        return 0.12
    if busy:
        return 0.25 + 0.75 * draw
    if asked is not None:
        return asked
    return float(min(60.0, 2.0 ** min(failures, 6)) * draw) + 0.1
