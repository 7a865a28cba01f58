"""Tasks on several nodes: all start or none, and one member's death replaces the whole gang.

* **Barrier.** Each member's agent asks to accept; it is told "later" until every rank has accepted, and starts nothing before the answer. If one does not
  accept in time, nobody has started.
* **Rank, number and addresses** of all members go into the job's environment, under our names and SkyPilot's.
* **The end.** While others live, a member's end leaves the task as it is. If it ended well the others go on; if not, they are stopped. The last end decides
  for the task: done when all finished, else by the reason of the member that ended badly first. A gang shares one fence, so its next attempt is a new gang.
"""

from datetime import datetime

from django.utils.translation import gettext as _

from portal.kit.errors import Unavailable
from portal.outbox.services import put
from scheduling.domain.attempt import LIVE, AttemptState
from scheduling.domain.demand import TaskSpec
from scheduling.domain.reasons import EndReason
from scheduling.models import Attempt, Task

ACTOR = "policy:gang@1"
BROKEN = EndReason.PREEMPTED
"""With what the others are stopped: nobody's fault, billed to the stop, an interruption."""
_LIVE = [state.value for state in LIVE]


def size(task: Task) -> int:
    """How many nodes the task takes."""
    return TaskSpec.from_form(task.spec).num_nodes


def members(attempt: Attempt) -> list[Attempt]:
    """All attempts of a gang, by rank."""
    rows = Attempt.objects.filter(task_id=attempt.task_id, fence=attempt.fence).select_related("node")
    return list(rows.order_by("rank"))


def arrived(*, attempt: str, address: str) -> None:
    """A member has accepted from `address`; Unavailable (503, "ask again") until all have."""
    mine = Attempt.objects.select_related("task").get(public_id=attempt)
    many = size(mine.task)
    if many == 1:
        return
    Attempt.objects.filter(id=mine.id).update(address=address)
    there = [one for one in members(mine) if one.state != AttemptState.ASSIGNED and one.address]
    if len(there) < many:
        sentence = _("%(there)s of %(many)s members have arrived: ask again.")
        raise Unavailable(sentence % {"there": len(there), "many": many}, code="GANG_WAITS")


def environment(attempt: Attempt, spec: TaskSpec) -> dict[str, str]:
    """What a member is told about its gang; nothing for a task on one node."""
    if spec.num_nodes == 1:
        return {}
    told = {
        "NODE_RANK": str(attempt.rank),
        "NUM_NODES": str(spec.num_nodes),
        "NODE_IPS": "\n".join(one.address for one in members(attempt)),
    }
    return {f"{prefix}_{name}": value for prefix in ("IDLEWILD", "SKYPILOT") for name, value in told.items()}


def after_member(
    *, attempt: Attempt, reason: EndReason, exit_code: int | None, now: datetime
) -> tuple[Attempt, EndReason, int | None] | None:
    """After a member of a gang has ended: whose end decides for the task now, or None while others live."""
    all_members = members(attempt)
    living = [one for one in all_members if one.id != attempt.id and one.state in _LIVE]
    if living:
        if reason is not EndReason.FINISHED and attempt.actor != ACTOR:
            put(topic="gang.broken", key=attempt.public_id, payload={"attempt": attempt.public_id}, now=now)
        return None
    ends = [(one.ended_at or now, one.rank, one) for one in all_members if one.id != attempt.id]
    bad = [
        one
        for _, _, one in sorted(ends, key=lambda end: end[:2])
        if one.reason != EndReason.FINISHED and one.actor != ACTOR
    ]
    if bad:
        return bad[0], EndReason(bad[0].reason), bad[0].exit_code
    return attempt, reason, exit_code


def others(attempt: str) -> list[int]:
    """The members that still live, beside one that has ended."""
    ended = Attempt.objects.get(public_id=attempt)
    return [one.id for one in members(ended) if one.id != ended.id and one.state in _LIVE]
