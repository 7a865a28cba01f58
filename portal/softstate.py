"""Soft state: what may vanish. The only module that imports redis (contract 6).

Redis or Valkey holds heartbeats, lease renewals, link state and counters, each with a time to live. Missing means *unknown*, never *dead*; nothing that
money or an answer depends on is kept here. So every function has one of two manners, named in its docstring:

* *quiet*: without a server it answers "unknown" (None, {}, 0) and logs once a minute;
* *loud*: it raises :class:`SoftstateDown`, because its caller has another way (PostgreSQL) and must take it.

Scripts: a module registers a Lua source once (``RENEW = softstate.Script("…")``) and calls it with keys and arguments; one call is one round trip.
"""

import asyncio
import json
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import redis
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.conf import settings
from django.core.cache.backends.redis import RedisCache

log = logging.getLogger("idlewild.softstate")

DOWN = (redis.RedisError, OSError)
_WARN_EVERY_S = 60.0
_warned_at = -_WARN_EVERY_S


class SoftstateDown(Exception):
    """The soft store has no answer; ask PostgreSQL or say "unknown"."""


def _warn(what: str, problem: BaseException) -> None:
    global _warned_at
    if time.monotonic() - _warned_at >= _WARN_EVERY_S:
        _warned_at = time.monotonic()
        log.warning("soft state is away (%s: %s); going on without it", what, type(problem).__name__)


@cache
def _client() -> "redis.Redis":
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=1, decode_responses=True)


def key(*parts: object) -> str:
    """A key of this installation: ``key("lease", 7)`` → ``idlewild:soft:lease:7``."""
    return ":".join([settings.IDLEWILD_KEY_PREFIX, "soft", *map(str, parts)])


def alive() -> bool:
    """Does the server answer? (quiet)"""
    try:
        return bool(_client().ping())
    except DOWN:
        return False


# --- values with a time to live ------------------------------------------------------------------------------------------
def put(name: str, value: Any, *, ttl_ms: int) -> bool:
    """Store a JSON value under key(name) for `ttl_ms`; False when the store is away. (quiet)"""
    return put_many({name: value}, ttl_ms=ttl_ms)


def put_many(values: Mapping[str, Any], *, ttl_ms: int) -> bool:
    """Several values in one round trip. (quiet)"""
    if not values:
        return True
    try:
        pipe = _client().pipeline(transaction=False)
        for name, value in values.items():
            pipe.set(key(name), json.dumps(value), px=ttl_ms)
        pipe.execute()
    except DOWN as problem:
        _warn("put", problem)
        return False
    return True


def get(name: str) -> Any | None:
    """The value, or None for unknown. (quiet)"""
    return get_many([name]).get(name)


def get_many(names: Iterable[str]) -> dict[str, Any]:
    """The known ones among `names`, in one round trip. (quiet)"""
    wanted = list(names)
    if not wanted:
        return {}
    try:
        found = _client().mget([key(name) for name in wanted])
    except DOWN as problem:
        _warn("get", problem)
        return {}
    return {name: json.loads(text) for name, text in zip(wanted, found, strict=True) if text is not None}


def forget(*names: str) -> None:
    """Delete values. (quiet)"""
    if not names:
        return
    try:
        _client().delete(*[key(name) for name in names])
    except DOWN as problem:
        _warn("forget", problem)


def first(name: str, *, ttl_ms: int) -> bool:
    """Is this the first to say `name` since it was forgotten, or since `ttl_ms`? True too when the store is away. (quiet)"""
    try:
        return bool(_client().set(key(name), "1", px=ttl_ms, nx=True))
    except DOWN as problem:
        _warn("first", problem)
        return True


def count(name: str, *, seconds: int, by: int = 1) -> int:
    """Add to a counter that starts anew each `seconds`; its new value, 0 when the store is away (so: no limit). (quiet)"""
    full = key("count", name, int(time.time()) // seconds)  # the window's number; no decision about money hangs on it
    try:
        pipe = _client().pipeline(transaction=True)
        pipe.incrby(full, by)
        pipe.expire(full, seconds + 1)
        return int(pipe.execute()[0])
    except DOWN as problem:
        _warn("count", problem)
        return 0


# --- scripts ---------------------------------------------------------------------------------------------------------------
class Script:
    """A Lua script run under its digest. (loud)"""

    def __init__(self, source: str) -> None:
        self.source = source
        self._script: Any = None

    def __call__(self, *, keys: Sequence[str] = (), args: Sequence[str | int] = ()) -> Any:
        """Run it on key(…) of each of `keys`; SoftstateDown if the store is away."""
        try:
            if self._script is None:
                self._script = _client().register_script(self.source)
            return self._script(keys=[key(name) for name in keys], args=list(args))
        except DOWN as problem:
            _warn("script", problem)
            raise SoftstateDown(type(problem).__name__) from None


# --- wake-ups through the channel layer --------------------------------------------------------------------------------------
def wake_many(messages: Iterable[tuple[str, Mapping[str, Any] | None]]) -> None:
    """Several wake-ups over one connection; call it after commit. (quiet)"""
    wanted = list(messages)
    if not wanted:
        return
    try:
        async_to_sync(_send_all)(wanted)
    except DOWN as problem:
        _warn("wake", problem)


FEW = 8


async def _send_all(messages: Sequence[tuple[str, Mapping[str, Any] | None]]) -> None:
    layer = get_channel_layer()
    if len(messages) > FEW:
        messages = await _with_listeners(layer, messages)
    for group, message in messages:
        await layer.group_send(group, {"type": "wake", **(message or {})})


async def _with_listeners(layer: Any, messages: Sequence[tuple[str, Mapping[str, Any] | None]]) -> list[Any]:
    """Those whose group somebody is in: of hundreds of topics few are being looked at, and one round trip tells which."""
    pipe = layer.connection(layer.consistent_hash(messages[0][0])).pipeline(transaction=False)
    if len(layer.hosts) > 1:  # groups lie on several servers
        return list(messages)
    for group, _ in messages:
        pipe.exists(layer._group_key(group))
    found = await pipe.execute()
    return [message for message, there in zip(messages, found, strict=True) if there]


def wake(group: str, message: Mapping[str, Any] | None = None) -> None:
    """Tell everyone who waits for `group` or listens to it; call it after commit. (quiet)"""
    try:
        async_to_sync(get_channel_layer().group_send)(group, {"type": "wake", **(message or {})})
    except DOWN as problem:
        _warn("wake", problem)


async def wait(group: str, seconds: float) -> dict[str, Any] | None:
    """Wait up to `seconds` for a wake-up of `group`: its message, or None when none came. Holds no database connection. (quiet)

    Without the store it waits the time out (less often asked is better than asked at once by every agent).
    """
    until = time.monotonic() + seconds
    layer = get_channel_layer()
    try:
        channel = await layer.new_channel()
        await layer.group_add(group, channel)
    except DOWN as problem:
        _warn("wait", problem)
        await asyncio.sleep(max(0.0, until - time.monotonic()))
        return None
    try:
        async with asyncio.timeout(max(0.0, until - time.monotonic())):
            return dict(await layer.receive(channel))
    except TimeoutError:
        return None
    except DOWN as problem:
        _warn("wait", problem)
        await asyncio.sleep(max(0.0, until - time.monotonic()))
        return None
    finally:
        try:
            await layer.group_discard(group, channel)
        except DOWN as problem:
            _warn("wait", problem)


class Listener:
    """A place in a group taken *before* one looks into the database, so that a change between the look and the wait is not missed. (quiet)

    ::

        async with softstate.Listener("node.7") as listener:
            work = await look()
            if not work:
                await listener.heard(20.0)
                work = await look()
    """

    def __init__(self, group: str) -> None:
        self.group = group
        self.channel: str | None = None

    async def __aenter__(self) -> "Listener":
        layer = get_channel_layer()
        try:
            channel = await layer.new_channel()
            await layer.group_add(self.group, channel)
            self.channel = channel
        except DOWN as problem:
            _warn("listen", problem)
        return self

    async def heard(self, seconds: float) -> dict[str, Any] | None:
        """The first wake-up since entering, or None after `seconds`."""
        until = time.monotonic() + seconds
        if self.channel is not None:
            try:
                async with asyncio.timeout(max(0.0, seconds)):
                    return dict(await get_channel_layer().receive(self.channel))
            except TimeoutError:
                return None
            except DOWN as problem:
                _warn("listen", problem)
        await asyncio.sleep(max(0.0, until - time.monotonic()))
        return None

    async def __aexit__(self, *_: object) -> None:
        if self.channel is None:
            return
        try:
            await get_channel_layer().group_discard(self.group, self.channel)
        except DOWN as problem:
            _warn("listen", problem)


class Cache(RedisCache):
    """Django's cache, for rate limits of sign-in pages: away means a miss, never an error page."""

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        try:
            return super().get(key, default, version)
        except DOWN as problem:
            _warn("cache", problem)
            return default

    def set(self, *args: Any, **kwargs: Any) -> None:
        try:
            super().set(*args, **kwargs)
        except DOWN as problem:
            _warn("cache", problem)

    def add(self, *args: Any, **kwargs: Any) -> bool:
        try:
            return bool(super().add(*args, **kwargs))
        except DOWN as problem:
            _warn("cache", problem)
            return True

    def delete(self, *args: Any, **kwargs: Any) -> bool:
        try:
            return bool(super().delete(*args, **kwargs))
        except DOWN as problem:
            _warn("cache", problem)
            return False
