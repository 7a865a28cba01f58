"""A job's way to the few hosts that it may reach: what the supervisor and the job know of it. The proxy itself: proxy.py."""

from __future__ import annotations

import mmap
import struct

PORT = 3128
ADDRESS = f"http://127.0.0.1:{PORT}"


class Counters:
    """Bytes out and in, shared between the proxy and the supervisor, which outlives it."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 16)

    def read(self) -> tuple[int, int]:
        out, into = struct.unpack("QQ", self._memory[:16])
        return int(out), int(into)

    def add(self, *, out: int = 0, into: int = 0) -> None:
        before = self.read()
        self._memory[:16] = struct.pack("QQ", before[0] + out, before[1] + into)


def environment() -> dict[str, str]:
    """What tells a job's programs where the proxy is."""
    names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    return {**dict.fromkeys(names, ADDRESS), "no_proxy": "localhost,127.0.0.1", "NO_PROXY": "localhost,127.0.0.1"}
