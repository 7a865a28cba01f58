"""The way out of a job that may speak to a few hosts: a proxy inside its network namespace, served from outside of it.

The sandbox has a network of its own with nothing but `lo`. The supervisor opens a listening socket *in* that network
(127.0.0.1:3128, told to the job as https_proxy), goes back to the node's network and serves it in a process of its own:
whatever the job tries, there is no other way out, no DNS, no IPv6, and every byte is counted.

- **Only what is listed**: `CONNECT host:port` (TLS stays end to end) or a plain `http://host:port/…`, compared with the job's
  list before a name is looked up.
- **Only the public network**: every address found must be public, so a listed name cannot lead to the provider's network or
  to a cloud's metadata; the connection goes to the address that was checked.
- The process drops to the slot's user, dies with the supervisor, and sits outside of the job's groups: the job cannot starve
  or signal it, and it is not metered as the job.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import encodings.idna
import encodings.latin_1  # noqa: F401 - loaded now: the slot's user may not be able to read them later
import errno
import ipaddress
import os
import signal
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from .addresses import is_public
from .egress import PORT, Counters

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET, PR_SET_PDEATHSIG = 0x40000000, 1
HEAD_MOST, HEAD_S, CONNECT_S = 16 * 1024, 20.0, 15.0
CONNECTIONS, LOOK_UPS = 256, 8
CHUNK = 64 * 1024
OPEN_S = 5.0


# ── the process ───────────────────────────────────────────────────────────────────────────────────────────────────────


def start(init_pid: int, hosts: Sequence[str], counters: Counters, *, uid: int | None, private: bool = False) -> int:
    """Fork the proxy for the network of process `init_pid`; its pid. OSError when the socket cannot be opened there."""
    listener = _listen_in(init_pid)
    supervisor = os.getpid()
    pid = os.fork()
    if pid:
        listener.close()
        return pid
    try:
        _close_all_but(listener.fileno())
        if uid is not None:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # after the change of user, which would clear it
        if os.getppid() == supervisor:
            asyncio.run(Proxy(hosts, counters, private=private).serve(listener))
    finally:
        os._exit(0)


def _listen_in(pid: int) -> socket.socket:
    """A listening socket in another process's network. A socket stays in the network it was made in."""
    own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    other = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _enter(other)
        try:
            return _bound()
        finally:
            _enter(own)
    finally:
        os.close(own)
        os.close(other)


def _enter(fd: int) -> None:
    if LIBC.setns(fd, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")


def _bound() -> socket.socket:
    """`lo` is brought up by the sandbox a moment after its network is there."""
    until = time.monotonic() + OPEN_S
    while True:
        try:
            return socket.create_server(("127.0.0.1", PORT), backlog=128)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL or time.monotonic() > until:
                raise
            time.sleep(0.005)


def _close_all_but(kept: int) -> None:
    os.closerange(3, kept)
    os.closerange(kept + 1, 4096)


# ── the proxy ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Asked:
    """Where a job wants to go, and what is to be said there first (nothing for CONNECT)."""

    host: str
    port: int
    head: bytes


class Denied(Exception):
    """The sentence is for the job's author."""


class Proxy:
    def __init__(self, hosts: Sequence[str], counters: Counters, *, private: bool = False) -> None:
        self.hosts = frozenset(host.lower() for host in hosts)
        self.counters = counters
        self.private = private
        self._room = asyncio.Semaphore(CONNECTIONS)

    async def serve(self, listener: socket.socket) -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(LOOK_UPS))
        server = await asyncio.start_server(self._one, sock=listener)
        async with server:
            await server.serve_forever()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self._room:
            try:
                await self._carry(reader, writer)
            except Denied as denied:
                with contextlib.suppress(OSError):
                    writer.write(_answer("403 Forbidden", str(denied)))
                    await writer.drain()
            except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                with contextlib.suppress(OSError):
                    writer.write(_answer("502 Bad Gateway", "no connection"))
                    await writer.drain()
            finally:
                writer.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_S)
        asked = read_head(head)
        self._demand(asked)
        address = await self._look_up(asked)
        there, out = await asyncio.wait_for(asyncio.open_connection(address, asked.port), CONNECT_S)
        try:
            if asked.head:
                out.write(asked.head)
                self.counters.add(out=len(asked.head))
            else:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(self._pump(reader, out, sending=True), self._pump(there, writer, sending=False))
        finally:
            out.close()

    def _demand(self, asked: Asked) -> None:
        if f"{asked.host}:{asked.port}" not in self.hosts:
            raise Denied(f"{asked.host}:{asked.port} is not in the job's network.hosts")

    async def _look_up(self, asked: Asked) -> str:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(asked.host, asked.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise Denied(f"{asked.host} cannot be looked up: {error.strerror}") from error
        addresses = [ipaddress.ip_address(entry[4][0]) for entry in found]
        if not self.private and not all(is_public(address) for address in addresses):
            raise Denied(f"{asked.host} is not on the public network")
        return str(addresses[0])

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, sending: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(CHUNK):
                self.counters.add(**({"out": len(data)} if sending else {"into": len(data)}))
                target.write(data)
                await target.drain()
        with contextlib.suppress(OSError, RuntimeError):
            if target.can_write_eof():
                target.write_eof()


def read_head(head: bytes) -> Asked:
    """The request line of a proxy request; Denied for anything else."""
    if len(head) > HEAD_MOST:
        raise Denied("the request is too long")
    first, *lines = head.decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise Denied("this is a proxy for https and http")
    method, target, _version = parts
    if method == "CONNECT":
        host, port = _host_port(target, None)
        return Asked(host, port, b"")
    if not target.startswith("http://"):
        raise Denied("this is a proxy: name the whole address")
    place, slash, path = target.removeprefix("http://").partition("/")
    host, port = _host_port(place, 80)
    kept = [line for line in lines if line and not line.lower().startswith(("proxy-", "connection:", "keep-alive:"))]
    said = "\r\n".join([f"{method} {slash or '/'}{path} HTTP/1.1", *kept, "Connection: close", "", ""])
    return Asked(host, port, said.encode("latin-1"))


def _host_port(text: str, usual: int | None) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon:
        host, port = text, str(usual or "")
    if not host or "@" in host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise Denied("name host:port")
    return host.lower(), int(port)


def _answer(status: str, why: str) -> bytes:
    body = f"idlewild: {why}\n".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body
