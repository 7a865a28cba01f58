"""A node's way to the platform, which can be cut: a user-space relay between one agent and the web processes.

Each agent has one of its own. A connection goes to a web process that answers; while the way is *cut* nothing is read and nothing is written, in one
direction or both, as on a dead link: no reset, no end. `dropped` ends what is open at once, as a switch that restarts does.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any

CHUNK = 64 * 1024
POLL_S = 0.02


class Relay:
    """Listens on `host` (a free port), forwards to one of the addresses that `targets` names at that moment."""

    def __init__(self, targets: Callable[[], list[tuple[str, int]]], host: str = "127.0.0.1") -> None:
        self._targets = targets
        self._host = host
        self.port = 0
        self.up_cut = self.down_cut = False
        self.delay_s = 0.0
        self._open: set[asyncio.StreamWriter] = set()
        self._turn = 0
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._live, args=(ready,), daemon=True, name="relay")
        self._thread.start()
        if not ready.wait(10):
            raise RuntimeError("the relay did not start")

    def _live(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, self._host, 0))
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    # --- what may happen to it --------------------------------------------------------------------------------------------
    def cut(self, *, up: bool = True, down: bool = True) -> None:
        self.up_cut, self.down_cut = up, down

    def heal(self) -> None:
        self.up_cut = self.down_cut = False
        self.delay_s = 0.0

    def drop(self) -> None:
        self._loop.call_soon_threadsafe(self._drop)

    def _drop(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    # --- a connection -----------------------------------------------------------------------------------------------------
    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while self.up_cut:  # a dead link takes no new connection either
                await asyncio.sleep(POLL_S)
            there = await self._connect()
            if there is None:
                return
            far_reader, far_writer = there
            self._open.add(far_writer)
            try:
                await self._both(
                    self._pump(reader, far_writer, lambda: self.up_cut),
                    self._pump(far_reader, writer, lambda: self.down_cut),
                )
            finally:
                self._open.discard(far_writer)
                far_writer.transport.abort()
        except asyncio.CancelledError:
            return  # the relay stops; asyncio's server would report it as an error
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _both(self, *pumps: Coroutine[Any, Any, None]) -> None:
        tasks = [asyncio.ensure_future(pump) for pump in pumps]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        targets = self._targets()
        for n in range(len(targets)):
            self._turn += 1
            with contextlib.suppress(OSError):
                return await asyncio.open_connection(*targets[(self._turn + n) % len(targets)])
        return None

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_cut: Callable[[], bool]
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                while is_cut():
                    await asyncio.sleep(POLL_S)
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                writer.write(data)
                await writer.drain()
