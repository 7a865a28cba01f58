"""Soft state: answers while it is there, "unknown" when it is away, never an error in a quiet call."""

import asyncio
import time
from collections.abc import Iterator

import pytest
from channels.layers import get_channel_layer

from portal import softstate


@pytest.fixture
def away(settings: pytest.FixtureRequest) -> Iterator[None]:
    """A store that nobody serves."""
    settings.REDIS_URL = "unix:///nowhere/s?db=0"
    softstate._client.cache_clear()
    yield
    softstate._client.cache_clear()


@pytest.fixture(autouse=True)
def _fresh(db: None) -> None:
    """The store is emptied before tests that use the database; these want that too."""


def test_a_value_lives_as_long_as_it_should() -> None:
    assert softstate.put("node.1", {"load": 3}, ttl_ms=150)
    assert softstate.get("node.1") == {"load": 3}
    time.sleep(0.25)
    assert softstate.get("node.1") is None


def test_many_at_once() -> None:
    softstate.put_many({"a": 1, "b": None}, ttl_ms=10_000)
    assert softstate.get_many(["a", "b", "c"]) == {"a": 1, "b": None}
    softstate.forget("a")
    assert softstate.get_many(["a", "b"]) == {"b": None}
    assert softstate.get_many([]) == {}
    softstate.forget()


def test_a_counter_starts_anew_in_each_window() -> None:
    assert [softstate.count("reads", seconds=3_600) for _ in range(3)] == [1, 2, 3]
    assert softstate.count("reads", seconds=3_600, by=7) == 10
    assert softstate.count("other", seconds=3_600) == 1


def test_a_script_is_one_round_trip() -> None:
    extend = softstate.Script("redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2]) return redis.call('pttl', KEYS[1])")
    assert 0 < extend(keys=["lease.7"], args=["x", 5_000]) <= 5_000


def test_away_means_unknown_not_an_error(away: None) -> None:
    assert not softstate.alive()
    assert not softstate.put("a", 1, ttl_ms=1_000)
    assert softstate.get("a") is None
    assert softstate.count("reads", seconds=60) == 0, "so: no limit"
    softstate.forget("a")


def test_away_a_script_says_so(away: None) -> None:
    with pytest.raises(softstate.SoftstateDown):
        softstate.Script("return 1")()


async def test_a_wait_hears_the_wake_up() -> None:
    async def later() -> None:
        await asyncio.sleep(0.3)
        await get_channel_layer().group_send("node.1", {"type": "wake", "why": "work"})

    began = time.monotonic()
    heard, _ = await asyncio.gather(softstate.wait("node.1", 20), later())
    assert heard == {"type": "wake", "why": "work"}
    assert time.monotonic() - began < 10


async def test_a_wait_without_a_wake_up_ends_in_time() -> None:
    began = time.monotonic()
    assert await softstate.wait("node.2", 0.4) is None
    assert 0.35 < time.monotonic() - began < 5


async def test_a_change_between_look_and_wait_is_not_missed() -> None:
    async with softstate.Listener("node.3") as listener:
        await get_channel_layer().group_send("node.3", {"type": "wake"})  # while the caller looks into the database
        assert await listener.heard(20) == {"type": "wake"}


async def test_idle_for_thirteen_seconds_it_still_hears() -> None:
    """redis-py's default time-out of 5 s would end every idle wait (and close idle websockets)."""

    async def later() -> None:
        await asyncio.sleep(13)
        await get_channel_layer().group_send("node.4", {"type": "wake"})

    heard, _ = await asyncio.gather(softstate.wait("node.4", 30), later())
    assert heard == {"type": "wake"}


def test_the_cache_of_sign_in_limits_survives_without_a_store(away: None) -> None:
    cache = softstate.Cache("unix:///nowhere/s?db=0", {})
    cache.set("a", 1)
    assert cache.get("a", "missed") == "missed"
    assert cache.add("a", 1)
    assert not cache.delete("a")


def test_the_first_to_say_something_is_told_so_until_it_is_forgotten() -> None:
    assert softstate.first("wanted", ttl_ms=60_000)
    assert not softstate.first("wanted", ttl_ms=60_000)
    softstate.forget("wanted")
    assert softstate.first("wanted", ttl_ms=60_000)


def test_without_a_store_everybody_is_the_first(away: None) -> None:
    assert softstate.first("wanted", ttl_ms=60_000)
    assert softstate.first("wanted", ttl_ms=60_000)


async def test_many_wake_ups_reach_the_groups_in_which_somebody_waits() -> None:
    """Of hundreds of topics few are being looked at: only to those is anything sent."""
    many = [(f"topic.{number}", {"number": number}) for number in range(200)]
    async with softstate.Listener("topic.7") as listener, softstate.Listener("topic.150") as other:
        await asyncio.to_thread(softstate.wake_many, many)
        assert await listener.heard(20) == {"type": "wake", "number": 7}
        assert await other.heard(20) == {"type": "wake", "number": 150}
        await asyncio.to_thread(softstate.wake_many, [])
        await asyncio.to_thread(softstate.wake_many, many[7:9])
        assert await listener.heard(20) == {"type": "wake", "number": 7}
