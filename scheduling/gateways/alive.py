"""Lease renewals and heartbeats in the soft store: one script per sync, whatever number of leases a node holds.

`lease:<node>` is a hash, attempt → ``fence|expires_ms``; `alive:<node>` says until when a node's silence is normal
(it is being held); `heard` the same for the latest of all nodes; `lease:generation` is our mark: if it is gone, the
store has lost something. Times are the store's own (TIME), so no two servers' clocks are ever compared; `at_ms` is for
tests, which bring their own clock.

**The store can only extend a lease in time.** What is late, unknown or under another fence is answered "no" and goes
to PostgreSQL, which alone ends leases.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from portal import ids, softstate

_NOW = """
local function now_ms(given)
  if given ~= '' then return tonumber(given) end
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end
local function whole(n) return string.format('%.0f', n) end
"""

# KEYS: hash, alive, heard, load. ARGV: at, quiet for, load, then attempt, fence, ttl for each lease.
_SYNC = softstate.Script(
    _NOW
    + """
local now = now_ms(ARGV[1])
local quiet = now + tonumber(ARGV[2])
redis.call('SET', KEYS[2], whole(quiet), 'PX', 120000)
if (tonumber(redis.call('GET', KEYS[3]) or '0')) < quiet then redis.call('SET', KEYS[3], whole(quiet)) end
if ARGV[3] ~= '' then redis.call('SET', KEYS[4], ARGV[3], 'PX', 120000) end
local answers = {}
for i = 4, #ARGV, 3 do
  local entry = redis.call('HGET', KEYS[1], ARGV[i])
  local extended = 0
  if entry then
    local fence, expires = string.match(entry, '^(%d+)|(%d+)$')
    if fence == ARGV[i + 1] and tonumber(expires) >= now then
      redis.call('HSET', KEYS[1], ARGV[i], fence .. '|' .. whole(now + tonumber(ARGV[i + 2])))
      extended = 1
    end
  end
  answers[#answers + 1] = extended
end
if #ARGV > 3 then redis.call('PEXPIRE', KEYS[1], 86400000) end
return answers
"""
)

# KEYS: hash. ARGV: at, then attempt, fence, ttl for each.
_SET = softstate.Script(
    _NOW
    + """
local now = now_ms(ARGV[1])
for i = 2, #ARGV, 3 do
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1] .. '|' .. whole(now + tonumber(ARGV[i + 2])))
end
redis.call('PEXPIRE', KEYS[1], 86400000)
return 1
"""
)

_FORGET = softstate.Script("for i = 1, #ARGV do redis.call('HDEL', KEYS[1], ARGV[i]) end return 1")

# KEYS: generation, heard, then a hash for each attempt. ARGV: at, our new mark, then the attempts.
_LOOK = softstate.Script(
    _NOW
    + """
local now = now_ms(ARGV[1])
local mark = redis.call('GET', KEYS[1])
if not mark then redis.call('SET', KEYS[1], ARGV[2]) end
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') or '?'
local answer = {whole(now), run, mark or '', redis.call('GET', KEYS[2]) or '0'}
for i = 3, #ARGV do answer[#answer + 1] = redis.call('HGET', KEYS[i], ARGV[i]) or '' end
return answer
"""
)


@dataclass(frozen=True)
class Renewed:
    """One lease to renew."""

    attempt: str
    fence: int
    ttl_ms: int


@dataclass(frozen=True)
class Entry:
    """What the store knows of a lease: the fence it was renewed under, and the time left (negative: over)."""

    fence: int
    left_ms: int


@dataclass(frozen=True)
class Look:
    """What a sweep sees: which process answers, whether our mark was there, how long ago the last node was heard."""

    run_id: str
    generation: str  # our mark as it is now; a new one if it was gone
    intact: bool  # our mark was there
    unheard_ms: int | None
    entries: Mapping[str, Entry]


def _at(at_ms: int | None) -> str:
    return "" if at_ms is None else str(at_ms)


def _flat(leases: Sequence[Renewed]) -> list[str | int]:
    return [value for lease in leases for value in (lease.attempt, lease.fence, lease.ttl_ms)]


def sync(
    *, node: str, quiet_ms: int, load: str = "", leases: Sequence[Renewed] = (), at_ms: int | None = None
) -> set[str] | None:
    """A node is heard and its leases are renewed; returns the attempts whose lease was extended, None without a store.

    `quiet_ms`: so long it will be held, so its silence says nothing.
    """
    keys = [f"lease:{node}", f"alive:{node}", "heard", f"load:{node}"]
    try:
        answers = _SYNC(keys=keys, args=[_at(at_ms), quiet_ms, load, *_flat(leases)])
    except softstate.SoftstateDown:
        return None
    return {lease.attempt for lease, extended in zip(leases, answers, strict=True) if int(extended)}


def keep(*, node: str, leases: Sequence[Renewed], at_ms: int | None = None) -> None:
    """Write leases that PostgreSQL granted (accepted, or renewed late)."""
    if not leases:
        return
    try:
        _SET(keys=[f"lease:{node}"], args=[_at(at_ms), *_flat(leases)])
    except softstate.SoftstateDown:
        return  # the next renewal goes to PostgreSQL again


def forget(*, node: str, attempts: Sequence[str]) -> None:
    """Drop leases that ended, so no renewal of them succeeds here any more."""
    if not attempts:
        return
    try:
        _FORGET(keys=[f"lease:{node}"], args=list(attempts))
    except softstate.SoftstateDown:
        return  # their rows say the same


def look(*, attempts: Mapping[str, str], at_ms: int | None = None) -> Look | None:
    """For attempt → node: the entries, in one round trip; None without a store."""
    wanted = list(attempts.items())
    keys = ["lease:generation", "heard", *[f"lease:{node}" for _, node in wanted]]
    mark = ids.token(20)
    try:
        answer = _LOOK(keys=keys, args=[_at(at_ms), mark, *[attempt for attempt, _ in wanted]])
    except softstate.SoftstateDown:
        return None
    now, heard = int(answer[0]), int(answer[3])
    entries: dict[str, Entry] = {}
    for (attempt, _), text in zip(wanted, answer[4:], strict=True):
        if text:
            fence, _, expires = text.partition("|")
            entries[attempt] = Entry(int(fence), int(expires) - now)
    found = str(answer[2])
    return Look(str(answer[1]), found or mark, bool(found), max(0, now - heard) if heard else None, entries)
