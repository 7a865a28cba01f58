"""Send one webhook over HTTP: https to a public address, checked after the look-up and pinned; no redirects; 10 s.

A tenant chooses the address and our server sends to it, so it must not lead into our own network or to a cloud's
metadata: the name is looked up once, every address found must be public, and the connection goes to one of them.
"""

import asyncio
import ipaddress
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass

import httpx

TIMEOUT_S = 10.0
SAID_MOST = 200


@dataclass(frozen=True)
class Outcome:
    """How a try went. `status` 0: no answer; `error`: what was wrong, for people."""

    status: int
    error: str
    ms: int

    @property
    def received(self) -> bool:
        return 200 <= self.status < 300


class Unsendable(Exception):
    """An address that nothing is sent to; the text says why."""


def check(url: str, *, private: bool) -> str:
    """What is wrong with the form of an address, or ""."""
    try:
        target = httpx.URL(url)
    except httpx.InvalidURL:
        return "not an address"
    if target.scheme not in (("https", "http") if private else ("https",)) or not target.host:
        return "an address begins with https://"
    if target.userinfo:
        return "no user or password in the address"
    return ""


async def send(
    url: str, body: bytes, headers: Mapping[str, str], *, private: bool, timeout_s: float = TIMEOUT_S
) -> Outcome:
    """One POST. Never raises for what the other side does; `timeout_s` bounds the whole, also a trickle of bytes."""
    begun = time.monotonic()
    try:
        async with asyncio.timeout(timeout_s):
            status = await _post(url, body, headers, private=private)
        error = "" if 200 <= status < 300 else f"answered {status}"
    except TimeoutError:
        status, error = 0, f"no answer within {timeout_s:g} s"
    except Unsendable as refused:
        status, error = 0, str(refused)
    except (httpx.HTTPError, OSError, ValueError) as failure:
        status, error = 0, f"{type(failure).__name__}: {failure}"
    return Outcome(status, error[:SAID_MOST], int(1000 * (time.monotonic() - begun)))


async def _post(url: str, body: bytes, headers: Mapping[str, str], *, private: bool) -> int:
    target, host, extensions = await _pinned(url, private=private)
    async with (
        httpx.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False, trust_env=False) as client,
        client.stream("POST", target, content=body, headers={**headers, **host}, extensions=extensions) as answer,
    ):
        return answer.status_code


async def _pinned(url: str, *, private: bool) -> tuple[httpx.URL, dict[str, str], dict[str, str]]:
    target = httpx.URL(url)
    wrong = check(url, private=private)
    if wrong:
        raise Unsendable(wrong)
    if private:
        return target, {}, {}
    try:
        found = await asyncio.get_running_loop().getaddrinfo(target.host, target.port or 443, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Unsendable(f"{target.host} cannot be looked up: {error}") from error
    addresses = [ipaddress.ip_address(entry[4][0]) for entry in found]
    if not addresses or not all(is_public(address) for address in addresses):
        raise Unsendable(f"{target.host} is not on the public network")
    host = {"Host": target.netloc.decode()}
    return target.copy_with(host=str(addresses[0])), host, {"sni_hostname": target.host}


def is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Not private, loopback, link-local, multicast; nor one of these in the clothes of IPv6."""
    mapped = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None)
    if mapped is not None:
        return is_public(mapped)
    return address.is_global and not address.is_multicast
