"""HTTP to the portal: one total time-out, typed refusals, and pauses that fit the moment."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from agent import protocol as wire
from agent import transport
from agent.transport import Portal, Refused, Unreachable, pause_s
from tests.agent.peer import Peer, Problem
from tests.fakes.agent import HARDWARE

ENROLL = wire.EnrollRequest("token-0123456789", "host", "0.1.0", "boot", HARDWARE)


def post(url: str, **more: Any) -> wire.Enrolled:
    async def work() -> wire.Enrolled:
        portal = Portal(url)
        try:
            return await portal.post(wire.ENROLL, ENROLL, wire.Enrolled, **more)
        finally:
            await portal.close()

    return asyncio.run(work())


def test_an_answer(portal: Peer) -> None:
    assert post(portal.url).node == portal.node


def test_refusals_carry_code_and_sentence(portal: Peer) -> None:
    post(portal.url)
    with pytest.raises(Refused, match="409 TOKEN_USED: this token has enrolled a node already") as caught:
        post(portal.url)
    assert not caught.value.fenced


@pytest.mark.parametrize("status", [429, 500, 502, 503, 302])
def test_later(portal: Peer, status: int) -> None:
    def refuse(method: str, path: str) -> None:
        raise Problem(status, "later")

    portal.hook = refuse
    with pytest.raises(Unreachable, match=str(status)):
        post(portal.url)


def test_nobody_there() -> None:
    with pytest.raises(Unreachable, match="ConnectError"):
        post("http://127.0.0.1:9")


def test_the_total_time_out_holds_against_a_slow_answer(portal: Peer) -> None:
    portal.mood = "mute"
    with pytest.raises(Unreachable, match="TimeoutError"):
        post(portal.url, timeout_s=0.3)


def test_an_answer_of_another_wire_is_no_answer(portal: Peer) -> None:
    async def nonsense(*_: Any) -> Any:
        return {"node": 5}

    portal.handle = nonsense  # type: ignore[method-assign]
    with pytest.raises(Unreachable, match="unreadable answer"):
        post(portal.url)


def test_a_refusal_that_is_no_problem_json(portal: Peer) -> None:
    class Plain(Problem):
        body: Any

    def refuse(method: str, path: str) -> None:
        problem = Plain(404, "x")
        problem.body = b"<html>not here</html>"  # type: ignore[assignment]
        raise problem

    portal.hook = refuse
    with pytest.raises(Refused, match="not here"):
        post(portal.url)


@given(st.integers(1, 10_000), st.floats(0, 0.999999))
def test_pauses(failures: int, draw: float) -> None:
    assert 0.1 <= pause_s(failures, busy=False, frozen=False, draw=draw) <= 60.1
    assert 0.25 <= pause_s(failures, busy=True, frozen=False, draw=draw) <= 1.0
    assert pause_s(failures, busy=True, frozen=True, draw=draw) < 0.2
    assert pause_s(failures, busy=False, frozen=False, draw=draw, asked=7.0) == 7.0


# ── foreign addresses ─────────────────────────────────────────────────────────────────────────────────────────────────


class Files(BaseHTTPRequestHandler):
    """A web server with a certificate for inputs.example; tells which host it was asked for."""

    asked: list[str] = []

    def do_GET(self) -> None:
        self.asked.append(self.headers["Host"])
        start = int(self.headers.get("Range", "bytes=0-")[6:-1])
        body = b"0123456789"[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        return


def certificate(folder: Path, name: str) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    day = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(day)
        .not_valid_after(day + datetime.timedelta(days=36_500))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = folder / "server.pem"
    plain = serialization.NoEncryption()
    text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    pem.write_bytes(text + made.public_bytes(serialization.Encoding.PEM))
    return pem


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Port of a TLS server on loopback that the agent takes for a public one."""
    pem = certificate(tmp_path, "inputs.example")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Files)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    monkeypatch.setattr(transport, "is_public", lambda address: address == ipaddress.ip_address("127.0.0.1"))
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join()


def fetched(url: str, offset: int = 0) -> bytes:
    async def work() -> bytes:
        loop = asyncio.get_running_loop()

        async def lookup(host: str, port: int, **_: Any) -> list[Any]:
            return [(0, 0, 0, "", ("127.0.0.1", port))]

        loop.getaddrinfo = lookup  # type: ignore[method-assign,assignment]
        portal = Portal("https://portal.example", "nod_1", "secret-secret")
        try:
            return b"".join([chunk async for chunk in portal.fetch(url, offset)])
        finally:
            await portal.close()

    return asyncio.run(work())


def test_a_pinned_address_is_asked_by_its_name_and_shows_its_certificate(web: int) -> None:
    Files.asked.clear()
    assert fetched(f"https://inputs.example:{web}/x") == b"0123456789"
    assert fetched(f"https://inputs.example:{web}/x", offset=4) == b"456789"
    assert Files.asked == [f"inputs.example:{web}"] * 2


def test_a_pinned_address_with_anothers_certificate_is_refused(web: int) -> None:
    with pytest.raises(Unreachable, match=r"(?i)certificate"):
        fetched(f"https://other.example:{web}/x")


@pytest.mark.parametrize(
    "text", ["127.0.0.1", "10.1.2.3", "100.64.0.1", "169.254.169.254", "::1", "fe80::1", "224.0.0.1", "::ffff:10.0.0.1"]
)
def test_addresses_that_are_not_public(text: str) -> None:
    assert not transport.is_public(ipaddress.ip_address(text))


def test_addresses_that_are_public() -> None:
    assert transport.is_public(ipaddress.ip_address("8.8.8.8"))
    assert transport.is_public(ipaddress.ip_address("2606:4700::1111"))
