"""Why a task waits, and why an attempt ended: the two closed lists of the product, each with its sentence.

**Ended** (contracts §5.2) decides money and what comes next:

| reason | fault | metered time billed? | retry event |
|---|---|---|---|
| finished | none | yes | - |
| exit_nonzero setup_failed out_of_memory disk_full output_missing output_refused | tenant | yes | error |
| input_unreadable image_refused (before running) | tenant | yes (nothing is metered) | error |
| time_limit cancelled_by_tenant budget_exhausted balance_exhausted organisation_suspended | tenant | yes | never |
| preempted | none | yes, to the stop | interruption |
| node_lost node_rebooted not_accepted node_drained | provider | no: a line of 0 | interruption |
| device_error start_failed start_timeout report_forged | provider | no: a line of 0 | interruption |
| platform_fault upload_failed | platform | no: a line of 0 | interruption |
| stopped_by_operator | none | yes, to the stop | never |
| no_capacity deadline_passed needs_failed array_failures (of a task, without an attempt) | none | no | never |

**Waiting** (contracts §6): each refused place is counted once, at its first failing filter, region → zone → node.

Sentences are English message ids with named gaps; the floors above translate them (`N_` only marks them for
extraction).
"""

from dataclasses import dataclass
from enum import StrEnum


def N_(text: str) -> str:  # noqa: N802 - the extractors' name for "to be translated later"
    """Mark `text` for the translation catalogue."""
    return text


class Fault(StrEnum):
    TENANT = "tenant"
    PROVIDER = "provider"
    PLATFORM = "platform"
    NONE = "none"


class RetryEvent(StrEnum):
    """Names of the job spec's `retry.on_events`; an ending that is never retried has no event."""

    NO_CAPACITY = "no-capacity"
    INTERRUPTION = "interruption"
    ERROR = "error"


class EndReason(StrEnum):
    FINISHED = "finished"
    EXIT_NONZERO = "exit_nonzero"
    SETUP_FAILED = "setup_failed"
    OUT_OF_MEMORY = "out_of_memory"
    DISK_FULL = "disk_full"
    OUTPUT_MISSING = "output_missing"
    OUTPUT_REFUSED = "output_refused"
    INPUT_UNREADABLE = "input_unreadable"
    IMAGE_REFUSED = "image_refused"
    TIME_LIMIT = "time_limit"
    CANCELLED_BY_TENANT = "cancelled_by_tenant"
    BUDGET_EXHAUSTED = "budget_exhausted"
    BALANCE_EXHAUSTED = "balance_exhausted"
    ORGANISATION_SUSPENDED = "organisation_suspended"
    PREEMPTED = "preempted"
    NODE_LOST = "node_lost"
    NODE_REBOOTED = "node_rebooted"
    NOT_ACCEPTED = "not_accepted"
    NODE_DRAINED = "node_drained"
    DEVICE_ERROR = "device_error"
    START_FAILED = "start_failed"
    START_TIMEOUT = "start_timeout"
    REPORT_FORGED = "report_forged"
    PLATFORM_FAULT = "platform_fault"
    UPLOAD_FAILED = "upload_failed"
    STOPPED_BY_OPERATOR = "stopped_by_operator"
    NO_CAPACITY = "no_capacity"
    DEADLINE_PASSED = "deadline_passed"
    NEEDS_FAILED = "needs_failed"
    ARRAY_FAILURES = "array_failures"


@dataclass(frozen=True)
class Ending:
    """One row of the table. `attempt_state` is the attempt's terminal state; "" for reasons of a task that has none."""

    fault: Fault
    billed: bool
    event: RetryEvent | None
    attempt_state: str
    text: str


_E, _I = RetryEvent.ERROR, RetryEvent.INTERRUPTION
_T, _P, _PLATFORM, _NO = Fault.TENANT, Fault.PROVIDER, Fault.PLATFORM, Fault.NONE

ENDED: dict[EndReason, Ending] = {
    EndReason.FINISHED: Ending(_NO, True, None, "succeeded", N_("Finished.")),
    EndReason.EXIT_NONZERO: Ending(
        _T, True, _E, "failed", N_("The job's command ended with an exit code other than 0.")
    ),
    EndReason.SETUP_FAILED: Ending(_T, True, _E, "failed", N_("The job's setup ended with an exit code other than 0.")),
    EndReason.OUT_OF_MEMORY: Ending(_T, True, _E, "oom", N_("The job used more memory than it asked for.")),
    EndReason.DISK_FULL: Ending(_T, True, _E, "failed", N_("The job used more disk space than it asked for.")),
    EndReason.OUTPUT_MISSING: Ending(_T, True, _E, "failed", N_("A required output was not there when the job ended.")),
    EndReason.OUTPUT_REFUSED: Ending(_T, True, _E, "failed", N_("An output could not be taken as it was.")),
    EndReason.INPUT_UNREADABLE: Ending(_T, True, _E, "failed", N_("An input could not be read; nothing had started.")),
    EndReason.IMAGE_REFUSED: Ending(_T, True, _E, "failed", N_("The image could not be used; nothing had started.")),
    EndReason.TIME_LIMIT: Ending(_T, True, None, "timeout", N_("The job ran as long as max_duration allows.")),
    EndReason.CANCELLED_BY_TENANT: Ending(_T, True, None, "cancelled", N_("Cancelled by a member.")),
    EndReason.BUDGET_EXHAUSTED: Ending(_T, True, None, "cancelled", N_("The budget was used up.")),
    EndReason.BALANCE_EXHAUSTED: Ending(
        _T, True, None, "cancelled", N_("The prepaid balance was used up. Top it up, then run the job again.")
    ),
    EndReason.ORGANISATION_SUSPENDED: Ending(_T, True, None, "cancelled", N_("The organisation was suspended.")),
    EndReason.PREEMPTED: Ending(
        _NO, True, _I, "cancelled", N_("A fixed-price job took the place of this interruptible one.")
    ),
    EndReason.NODE_LOST: Ending(_P, False, _I, "lost", N_("The node fell silent.")),
    EndReason.NODE_REBOOTED: Ending(_P, False, _I, "lost", N_("The node was restarted.")),
    EndReason.NOT_ACCEPTED: Ending(
        _P, False, _I, "assignment_expired", N_("The node did not take the assignment in time.")
    ),
    EndReason.NODE_DRAINED: Ending(_P, False, _I, "cancelled", N_("The provider took the node out of service.")),
    EndReason.DEVICE_ERROR: Ending(_P, False, _I, "failed", N_("A card of the node failed.")),
    EndReason.START_FAILED: Ending(_P, False, _I, "failed", N_("The node could not start the sandbox.")),
    EndReason.START_TIMEOUT: Ending(_P, False, _I, "failed", N_("The node did not start the job in time.")),
    EndReason.REPORT_FORGED: Ending(
        _P, False, _I, "failed", N_("The node's reports contradict what it can have done.")
    ),
    EndReason.PLATFORM_FAULT: Ending(_PLATFORM, False, _I, "failed", N_("A fault of the platform ended this attempt.")),
    EndReason.UPLOAD_FAILED: Ending(_PLATFORM, False, _I, "failed", N_("The outputs could not be stored.")),
    EndReason.STOPPED_BY_OPERATOR: Ending(_NO, True, None, "cancelled", N_("Stopped by an operator.")),
    EndReason.NO_CAPACITY: Ending(_NO, False, None, "", N_("No place was found within the time that retry allows.")),
    EndReason.DEADLINE_PASSED: Ending(_NO, False, None, "", N_("The deadline passed before the job could end.")),
    EndReason.NEEDS_FAILED: Ending(_NO, False, None, "", N_("A stage that this one needs has failed.")),
    EndReason.ARRAY_FAILURES: Ending(_NO, False, None, "", N_("Too many tasks of the array have failed.")),
}


class Tier(StrEnum):
    REGION = "region"
    ZONE = "zone"
    NODE = "node"
    TASK = "task"


class WaitReason(StrEnum):
    REGION_NOT_WANTED = "region_not_wanted"
    REGION_AVOIDED = "region_avoided"
    SUMMARY_EXPIRED = "summary_expired"
    REGION_SCU_SHORT = "region_scu_short"
    LINK_OVER_LATENCY = "link_over_latency"
    LINK_EXPIRED = "link_expired"
    ZONE_SHORT = "zone_short"
    FINGERPRINT_BELOW = "fingerprint_below"
    CORES_SHORT = "cores_short"
    MEMORY_SHORT = "memory_short"
    DISK_SHORT = "disk_short"
    CARDS_SHORT = "cards_short"
    CARD_KIND_DIFFERS = "card_kind_differs"
    IMAGE_UNSUPPORTED = "image_unsupported"
    PRICE_OVER_MAX = "price_over_max"
    CURRENCY_DIFFERS = "currency_differs"
    GREEN_UNDER_MIN = "green_under_min"
    RELIABILITY_UNDER_MIN = "reliability_under_min"
    UNVERIFIED = "unverified"
    OFFER_CLOSED_NOW = "offer_closed_now"
    OFFER_ENDS_EARLY = "offer_ends_early"
    NODE_SUSPECT = "node_suspect"
    NODE_DRAINING = "node_draining"
    NODE_KEPT = "node_kept"
    LEASE_CLASS_UNSUPPORTED = "lease_class_unsupported"
    EXCLUDED_AFTER_FAILURE = "excluded_after_failure"
    TENANT_REFUSED = "tenant_refused"
    DEADLINE_PASSED = "deadline_passed"
    NEEDS_UNFINISHED = "needs_unfinished"
    ARRAY_LIMIT = "array_limit"
    START_LATER = "start_later"
    AWAITING_CHOICE = "awaiting_choice"
    QUOTE_OUTDATED = "quote_outdated"
    BUDGET_HELD = "budget_held"
    BALANCE_SHORT = "balance_short"
    QUOTA_FULL = "quota_full"
    GANG_INCOMPLETE = "gang_incomplete"
    PREEMPTING = "preempting"
    TAKEN_MEANWHILE = "taken_meanwhile"


@dataclass(frozen=True)
class Waiting:
    """The sentence of one reason, said of places ("4 regions: too far …"); `{asked}`, `{best}` and `{unit}` are its
    gaps.
    """

    tier: Tier
    text: str


_W = WaitReason
WAITING: dict[WaitReason, Waiting] = {
    _W.REGION_NOT_WANTED: Waiting(Tier.REGION, N_("outside the places the job allows.")),
    _W.REGION_AVOIDED: Waiting(Tier.REGION, N_("in places the job avoids.")),
    _W.SUMMARY_EXPIRED: Waiting(Tier.REGION, N_("in places that sent no fresh summary.")),
    _W.REGION_SCU_SHORT: Waiting(Tier.REGION, N_("in regions too weak: {asked} {unit} asked, the best gives {best}.")),
    _W.LINK_OVER_LATENCY: Waiting(Tier.REGION, N_("too far: at most {asked} {unit} asked, the nearest has {best}.")),
    _W.LINK_EXPIRED: Waiting(Tier.REGION, N_("behind a link whose delay is not known.")),
    _W.ZONE_SHORT: Waiting(Tier.ZONE, N_("in zones that are too small.")),
    _W.FINGERPRINT_BELOW: Waiting(Tier.ZONE, N_("measured too weak: {asked} {unit} asked, the best gives {best}.")),
    _W.CORES_SHORT: Waiting(Tier.NODE, N_("with too few cores free: {asked} asked, the best has {best}.")),
    _W.MEMORY_SHORT: Waiting(Tier.NODE, N_("with too little memory free: {asked} {unit} asked, the best has {best}.")),
    _W.DISK_SHORT: Waiting(Tier.NODE, N_("with too little disk free: {asked} {unit} asked, the best has {best}.")),
    _W.CARDS_SHORT: Waiting(Tier.NODE, N_("with too few cards free: {asked} asked, the best has {best}.")),
    _W.CARD_KIND_DIFFERS: Waiting(Tier.NODE, N_("with other cards: {asked} asked, there is {best}.")),
    _W.IMAGE_UNSUPPORTED: Waiting(Tier.NODE, N_("that cannot run this image.")),
    _W.PRICE_OVER_MAX: Waiting(Tier.NODE, N_("too dear: at most {asked} {unit} allowed, the cheapest costs {best}.")),
    _W.CURRENCY_DIFFERS: Waiting(Tier.NODE, N_("priced in another currency than {asked}.")),
    _W.GREEN_UNDER_MIN: Waiting(Tier.NODE, N_("not green enough: {asked} asked, the best has {best}.")),
    _W.RELIABILITY_UNDER_MIN: Waiting(Tier.NODE, N_("not reliable enough: {asked} asked, the best has {best}.")),
    _W.UNVERIFIED: Waiting(Tier.NODE, N_("without an accepted fingerprint.")),
    _W.OFFER_CLOSED_NOW: Waiting(Tier.NODE, N_("not for sale now at the price asked for.")),
    _W.OFFER_ENDS_EARLY: Waiting(Tier.NODE, N_("whose offer ends before the job could end.")),
    _W.NODE_SUSPECT: Waiting(Tier.NODE, N_("that have not been heard from lately.")),
    _W.NODE_DRAINING: Waiting(Tier.NODE, N_("that take no new work.")),
    _W.NODE_KEPT: Waiting(Tier.NODE, N_("kept for another job that waits for them.")),
    _W.LEASE_CLASS_UNSUPPORTED: Waiting(Tier.NODE, N_("that do not offer the lease class {asked}.")),
    _W.EXCLUDED_AFTER_FAILURE: Waiting(Tier.NODE, N_("left out because this task failed there.")),
    _W.TENANT_REFUSED: Waiting(Tier.NODE, N_("whose provider does not take this organisation's jobs now.")),
    _W.DEADLINE_PASSED: Waiting(
        Tier.NODE, N_("would end after the deadline: {asked} {unit} are left, the fastest needs {best}.")
    ),
    _W.NEEDS_UNFINISHED: Waiting(Tier.TASK, N_("A stage that this one needs has not finished.")),
    _W.ARRAY_LIMIT: Waiting(Tier.TASK, N_("As many tasks of the array run as max_parallel allows.")),
    _W.START_LATER: Waiting(Tier.TASK, N_("The next try is at {asked}.")),
    _W.AWAITING_CHOICE: Waiting(Tier.TASK, N_("A point of the quote has to be chosen.")),
    _W.QUOTE_OUTDATED: Waiting(
        Tier.TASK, N_("Nothing is left within the quote: at most {asked} {unit}, now {best}. Get a new quote.")
    ),
    _W.BUDGET_HELD: Waiting(Tier.TASK, N_("The budget of {asked} {unit} is used up; raise it to go on.")),
    _W.BALANCE_SHORT: Waiting(
        Tier.TASK, N_("The balance is too low: {asked} {unit} are needed, {best} are there. Top up to go on.")
    ),
    _W.QUOTA_FULL: Waiting(Tier.TASK, N_("The organisation's quota is full.")),
    _W.GANG_INCOMPLETE: Waiting(Tier.TASK, N_("Not all nodes of the gang are free at once.")),
    _W.PREEMPTING: Waiting(Tier.TASK, N_("An interruptible job is being stopped to make room.")),
    _W.TAKEN_MEANWHILE: Waiting(Tier.TASK, N_("Others took the place first; the next cycle tries again.")),
}


def is_retryable(reason: EndReason, on_events: frozenset[str] | set[str]) -> bool:
    """Whether the spec's `retry.on_events` cover this ending."""
    event = ENDED[reason].event
    return event is not None and event.value in on_events
