"""A job that may reach a few hosts reaches these and nothing else, and every byte is counted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from agent import egress, meter
from agent.launching import Ground
from agent.protocol import Resource, Resources
from agent.proxy import Denied, read_head
from tests.agent.conftest import Job, alive, until
from tests.agent.conftest import Node as RealNode
from tests.agent.peer import Peer

Start = Callable[..., Job]
BODY = b"x" * 300_000


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *_arguments: object) -> None:
        return


@pytest.fixture
def web() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.2", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield int(server.server_address[1])
    server.shutdown()
    thread.join()
    server.server_close()


GET = """python3 - <<'END'
import os, urllib.error, urllib.request
for url in os.environ['URLS'].split():
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            print('got', len(answer.read()), flush=True)
    except urllib.error.HTTPError as refused:
        print(refused.code, refused.read().decode().strip(), flush=True)
    except OSError as error:
        print('no', error, flush=True)
END
"""


def run(start: Start, ground: Ground, urls: str, hosts: tuple[str, ...], **more: object) -> Job:
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/job",
        "URLS": urls,
        **egress.environment(),
        "no_proxy": "",
        "NO_PROXY": "",
    }
    return start(ground, GET, environment=environment, hosts=hosts, memory_mib=256, **{"private_hosts": True, **more})


def test_the_listed_host_is_reached_and_no_other(grouped: Ground, start: Start, web: int) -> None:
    urls = f"http://127.0.0.3:{web}/a http://127.0.0.2:{web}/b http://127.0.0.2:{web + 1}/c http://example.org/d"
    job = run(start, grouped, urls, (f"127.0.0.2:{web}",))
    ended = job.exit()
    assert job.said("stdout").splitlines() == [
        f"403 idlewild: 127.0.0.3:{web} is not in the job's network.hosts",
        f"got {len(BODY)}",
        f"403 idlewild: 127.0.0.2:{web + 1} is not in the job's network.hosts",
        "403 idlewild: example.org:80 is not in the job's network.hosts",
    ]
    assert ended["reason"] == "finished"


def test_bytes_both_ways_are_counted(grouped: Ground, start: Start, web: int) -> None:
    job = run(start, grouped, f"http://127.0.0.2:{web}/a", (f"127.0.0.2:{web}",))
    ended = job.exit()
    assert job.said("stdout") == f"got {len(BODY)}\n", job.said("supervisor")
    assert len(BODY) < ended["network_bytes"] < len(BODY) + 2_000


def test_a_tunnel_for_tls(grouped: Ground, start: Start, web: int) -> None:
    """CONNECT, as https does it; what goes through it is not looked at."""
    script = f"""python3 - <<'END'
import http.client
link = http.client.HTTPConnection('127.0.0.1', {egress.PORT}, timeout=20)
link.set_tunnel('127.0.0.2', {web})
link.request('GET', '/')
print('got', len(link.getresponse().read()))
END
"""
    job = start(grouped, script, hosts=(f"127.0.0.2:{web}",), private_hosts=True, memory_mib=256)
    assert job.exit()["reason"] == "finished", job.said("stderr")
    assert job.said("stdout") == f"got {len(BODY)}\n"


def test_a_listed_name_does_not_lead_into_the_providers_network(grouped: Ground, start: Start, web: int) -> None:
    hosts = (f"localhost:{web}", f"127.0.0.2:{web}", "169.254.169.254:80")
    urls = f"http://localhost:{web}/ http://127.0.0.2:{web}/ http://169.254.169.254/latest/meta-data"
    job = run(start, grouped, urls, hosts, private_hosts=False)
    job.exit()
    said = job.said("stdout").splitlines()
    assert said == [
        "403 idlewild: localhost is not on the public network",
        "403 idlewild: 127.0.0.2 is not on the public network",
        "403 idlewild: 169.254.169.254 is not on the public network",
    ]


def test_no_other_way_out(grouped: Ground, start: Start, web: int) -> None:
    script = f"""python3 - <<'END'
import socket
for kind, place in ((socket.SOCK_STREAM, ('127.0.0.1', {web})), (socket.SOCK_STREAM, ('127.0.0.2', {web})), (socket.SOCK_DGRAM, ('8.8.8.8', 53))):
    with socket.socket(socket.AF_INET, kind) as one:
        one.settimeout(2)
        try:
            one.connect(place)
            print('reached', place)
        except OSError as error:
            print('refused', place[0])
with open('/proc/net/dev') as file:
    print('interfaces', len(file.readlines()) - 2)
END
"""
    job = start(grouped, script, hosts=(f"127.0.0.2:{web}",), private_hosts=True, memory_mib=256)
    job.exit()
    assert job.said("stdout").splitlines() == [
        "refused 127.0.0.1", "refused 127.0.0.2", "refused 8.8.8.8", "interfaces 1",
    ]  # fmt: skip


def test_the_proxy_is_there_in_setup_and_in_run_and_gone_with_the_job(grouped: Ground, start: Start, web: int) -> None:
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/job", "URLS": f"http://127.0.0.2:{web}/", **egress.environment()}
    job = start(
        grouped, GET + "sleep 30", setup=GET, environment=environment, hosts=(f"127.0.0.2:{web}",), private_hosts=True,
        memory_mib=256,
    )  # fmt: skip
    until(lambda: job.said("stdout").count("got") == 2, what=f"for both: {job.said('stderr')}")
    children = until(lambda: _children(job.process.pid))
    facts = job.status()
    assert facts["network_bytes"] >= 2 * len(BODY)
    job.process.kill()
    until(lambda: not [pid for pid in children if alive(pid)], 3, "for the proxy to die with its supervisor")


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(one) for one in file.read().split()]


@pytest.mark.parametrize(
    "head",
    [b"", b"GET / HTTP/1.1\r\n", b"CONNECT nowhere HTTP/1.1\r\n", b"CONNECT a:0 HTTP/1.1\r\n", b"CONNECT u@h:1 HTTP/1.1\r\n",
     b"GET https://a/ HTTP/1.1\r\n", b"GET http://a:x/ HTTP/1.1\r\n", b"\x16\x03\x01", b"GET http://a/ HTTP/2\r\n",
     b"GET http://a/" + b"x" * 20_000 + b" HTTP/1.1\r\n"],
)  # fmt: skip
def test_what_is_no_proxy_request(head: bytes) -> None:
    with pytest.raises(Denied):
        read_head(head)


def test_a_request_is_said_again_without_what_was_for_the_proxy() -> None:
    asked = read_head(
        b"POST http://Hub.Example.org/a?b=1 HTTP/1.1\r\nHost: hub\r\nProxy-Authorization: x\r\nConnection: keep-alive\r\nX: y\r\n\r\n"
    )
    assert (asked.host, asked.port) == ("hub.example.org", 80)
    assert asked.head == b"POST /a?b=1 HTTP/1.1\r\nHost: hub\r\nX: y\r\nConnection: close\r\n\r\n"


def test_network_bytes_are_metered_only_where_there_is_a_network() -> None:
    needs = Resources(1000, 1024, 1024)
    assert Resource.NETWORK_BYTE not in {one.resource for one in meter.counters(needs, 1000)}
    [carried] = [one for one in meter.counters(needs, 1000, 42) if one.resource is Resource.NETWORK_BYTE]
    assert (carried.count_milli, carried.qty_us) == (0, 42)


def test_an_agent_meters_them(grouped: Ground, node: RealNode, portal: Peer) -> None:
    """Nothing is reached (the address is private), so 0 bytes; but the resource is there. (As root: `grouped`.)"""
    attempt = portal.assign("echo ${https_proxy:-none}; sleep 1", egress=("127.0.0.1:9",))
    report = portal.finished(attempt)
    assert portal.log(attempt) == f"{egress.ADDRESS}\n"
    assert [one.qty_us for one in report.counters if one.resource is Resource.NETWORK_BYTE] == [0]
