"""Words, tones and icons of every state, reason and kind that a page shows.

One table per kind of thing, keyed by the stored value. A test walks the enums and state tables of the businesses and fails
on a member that is missing here, so nothing reaches a page as a bare identifier.
"""

from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy


@dataclass(frozen=True, slots=True)
class Word:
    """What a person reads for a stored value. `tone` is one of success, info, warning, danger, quiet, special."""

    text: str | Promise
    tone: str = "quiet"
    icon: str = "dot"


TONES = frozenset({"success", "info", "warning", "danger", "quiet", "special"})

JOB = {
    "queued": Word(_("Queued"), "info", "hourglass"),
    "running": Word(_("Running"), "success", "play"),
    "done": Word(_("Done"), "success", "check"),
    "failed": Word(_("Failed"), "danger", "cross"),
    "cancelled": Word(_("Cancelled"), "quiet", "ban"),
}

TASK = {
    "waiting": Word(_("Waiting for an earlier step"), "quiet", "clock"),
    "queued": Word(_("Queued"), "info", "hourglass"),
    "placed": Word(_("Placed"), "info", "arrow"),
    "running": Word(_("Running"), "success", "play"),
    "done": Word(_("Done"), "success", "check"),
    "failed": Word(_("Failed"), "danger", "cross"),
    "cancelled": Word(_("Cancelled"), "quiet", "ban"),
}

ATTEMPT = {
    "assigned": Word(_("Assigned"), "info", "arrow"),
    "leased": Word(_("Preparing"), "info", "download"),
    "running": Word(_("Running"), "success", "play"),
    "unreachable": Word(_("Node silent"), "warning", "offline"),
    "cancelling": Word(_("Stopping"), "warning", "stop"),
    "succeeded": Word(_("Succeeded"), "success", "check"),
    "failed": Word(_("Failed"), "danger", "cross"),
    "oom": Word(_("Out of memory"), "danger", "cross"),
    "timeout": Word(_("Time limit reached"), "danger", "clock"),
    "cancelled": Word(_("Cancelled"), "quiet", "ban"),
    "assignment_expired": Word(_("Not accepted in time"), "warning", "hourglass"),
    "lost": Word(_("Lost"), "danger", "offline"),
}

PHASE = {
    "": Word(_("Waiting for the node"), "quiet", "clock"),
    "pulling": Word(_("Pulling the image"), "info", "download"),
    "staging": Word(_("Fetching inputs"), "info", "download"),
    "restoring": Word(_("Restoring the checkpoint"), "info", "retry"),
    "setup": Word(_("Setting up"), "info", "play"),
    "run": Word(_("Running"), "success", "play"),
    "uploading": Word(_("Storing outputs"), "info", "upload"),
}

LEASE = {
    "pending": Word(_("Pending"), "info", "clock"),
    "active": Word(_("Active"), "success", "play"),
    "released": Word(_("Released"), "quiet", "check"),
    "expired": Word(_("Expired"), "danger", "hourglass"),
    "revoked": Word(_("Revoked"), "warning", "ban"),
}

LEASE_CLASS = {
    "fast": Word(_("Fast failover"), "special", "bolt"),
    "standard": Word(_("Standard failover"), "info", "swap"),
    "tolerant": Word(_("Patient with slow links"), "quiet", "clock"),
}

NODE = {
    "invited": Word(_("Invited"), "info", "clock"),
    "probing": Word(_("Being checked"), "info", "gauge"),
    "listed": Word(_("Listed"), "success", "check"),
    "draining": Word(_("Draining"), "warning", "pause"),
    "retired": Word(_("Retired"), "quiet", "ban"),
}

CONTACT = {
    "online": Word(_("Online"), "success", "dot"),
    "suspect": Word(_("Silent for a moment"), "warning", "clock"),
    "silent": Word(_("Silent"), "danger", "offline"),
    "unknown": Word(_("Not heard yet"), "quiet", "ring"),
}

CHECK = {
    "waiting": Word(_("Waiting"), "quiet", "ring"),
    "passed": Word(_("Passed"), "success", "check"),
    "failed": Word(_("Needs attention"), "danger", "cross"),
}

CHECK_NAME = {
    "connected": Word(_("Connected"), "info", "plug"),
    "hardware": Word(_("Hardware read"), "info", "cpu"),
    "isolation": Word(_("Isolation proved"), "info", "shield"),
    "fingerprint": Word(_("Performance measured"), "info", "gauge"),
    "network": Word(_("Network measured"), "info", "link"),
    "clock": Word(_("Clock compared"), "info", "clock"),
}

OFFER = {
    "draft": Word(_("Draft"), "quiet", "file"),
    "published": Word(_("Published"), "success", "check"),
    "paused": Word(_("Paused"), "warning", "pause"),
    "withdrawn": Word(_("Withdrawn"), "quiet", "ban"),
    "expired": Word(_("Ended"), "quiet", "hourglass"),
}

QUOTE = {
    "open": Word(pgettext_lazy("quote", "Open"), "info", "clock"),
    "used": Word(_("Used"), "success", "check"),
    "expired": Word(_("Expired"), "quiet", "hourglass"),
}

ARTEFACT = {
    "stored": Word(_("Stored"), "success", "check"),
    "deleted": Word(_("Deleted"), "quiet", "ban"),
    "expired": Word(_("Expired"), "quiet", "hourglass"),
}

WEBHOOK = {
    "due": Word(_("Being sent"), "info", "hourglass"),
    "delivered": Word(_("Received"), "success", "check"),
    "failed": Word(_("Not received"), "danger", "cross"),
    "on": Word(_("On"), "success", "check"),
    "off": Word(_("Off"), "quiet", "ban"),
}

BANK_TRANSFER = {
    "unmatched": Word(_("Waits for its owner"), "warning", "hourglass"),
    "matched": Word(_("Settled by its reference"), "success", "check"),
    "assigned": Word(_("Settled by an operator"), "success", "check"),
    "returned": Word(_("Sent back"), "quiet", "back"),
}

INVOICE = {
    "draft": Word(_("Draft"), "quiet", "file"),
    "open": Word(pgettext_lazy("invoice", "Open"), "info", "clock"),
    "partially_paid": Word(_("Partly paid"), "warning", "coin"),
    "past_due": Word(_("Past due"), "danger", "warning"),
    "paid": Word(_("Paid"), "success", "check"),
    "void": Word(_("Void"), "quiet", "ban"),
    "uncollectible": Word(_("Uncollectible"), "danger", "ban"),
}

PERIOD = {
    "open": Word(_("Open"), "info", "clock"),
    "grace": Word(_("Taking late usage"), "info", "hourglass"),
    "closing": Word(_("Closing"), "info", "gauge"),
    "closed": Word(_("Closed"), "quiet", "check"),
}

HOLD = {
    "active": Word(_("Reserved"), "info", "clock"),
    "captured": Word(_("Charged"), "success", "check"),
    "released": Word(_("Given back"), "quiet", "check"),
    "expired": Word(_("Expired"), "quiet", "hourglass"),
}

PAYMENT = {
    "created": Word(_("Waits for payment"), "info", "clock"),
    "requires_action": Word(_("Waits for your bank"), "warning", "hourglass"),
    "processing": Word(_("On its way"), "info", "hourglass"),
    "succeeded": Word(_("Paid"), "success", "check"),
    "disputed": Word(_("Disputed"), "danger", "warning"),
    "failed": Word(_("Not paid"), "danger", "cross"),
    "cancelled": Word(_("Not used"), "quiet", "ban"),
    "refunded": Word(_("Given back"), "quiet", "check"),
}

PAYMENT_FOR = {
    "invoice": Word(_("Invoice"), "info", "invoice"),
    "top_up": Word(_("Wallet"), "info", "coin"),
}

PAGE = {
    "waiting": Word(_("Being opened"), "info", "hourglass"),
    "ready": Word(_("Open"), "success", "check"),
    "failed": Word(_("Could not be opened"), "danger", "cross"),
}

REFUND = {
    "created": Word(_("On its way back"), "info", "hourglass"),
    "succeeded": Word(_("Given back"), "success", "check"),
    "failed": Word(_("Came back: it is your credit"), "warning", "retry"),
}

DISPUTE = {
    "open": Word(_("With the bank"), "warning", "hourglass"),
    "won": Word(_("Won"), "success", "check"),
    "lost": Word(_("Lost"), "danger", "cross"),
}

PAYOUT = {
    "accrued": Word(_("Being collected"), "info", "clock"),
    "available": Word(_("Ready to be sent"), "info", "check"),
    "reserved": Word(_("Being sent"), "info", "hourglass"),
    "sent": Word(_("Sent"), "info", "arrow"),
    "paid": Word(_("Paid"), "success", "check"),
    "failed": Word(_("Came back"), "danger", "cross"),
}

PAYOUT_WAIT = {
    "below_minimum": Word(_("Less than the smallest payout: it goes out with the next earnings"), "info", "coin"),
    "no_account": Word(_("Say first where the money goes"), "warning", "building"),
    "payouts_disabled": Word(_("The payout account still needs something"), "warning", "warning"),
    "no_rail": Word(_("No payout service is set up here"), "warning", "offline"),
}

KYC = {
    "none": Word(_("Not set up"), "quiet", "ring"),
    "incomplete": Word(_("Something is missing"), "warning", "warning"),
    "pending": Word(_("Being looked at"), "info", "hourglass"),
    "enabled": Word(_("Ready for payouts"), "success", "check"),
    "rejected": Word(_("Refused"), "danger", "cross"),
}

INBOX = {
    "received": Word(_("Received"), "info", "clock"),
    "done": Word(_("Done"), "success", "check"),
    "dead": Word(_("Could not be applied"), "danger", "cross"),
}

ORGANISATION = {
    "active": Word(_("Active"), "success", "check"),
    "suspended": Word(_("Suspended"), "danger", "ban"),
}

ROLE = {
    "owner": Word(_("Owner"), "special", "key"),
    "admin": Word(_("Administrator"), "info", "shield"),
    "developer": Word(_("Developer"), "info", "job"),
    "billing": Word(_("Billing"), "info", "coin"),
    "viewer": Word(_("Viewer"), "quiet", "eye"),
}

TIER = {
    "centre": Word(_("Centre"), "info", "building"),
    "edge": Word(_("Edge"), "info", "bolt"),
    "site": Word(_("Site"), "info", "home"),
}

ISOLATION = {
    "full": Word(_("Full isolation"), "success", "shield"),
    "bwrap": Word(_("Sandbox without cgroups: limits are not enforced"), "warning", "warning"),
    "none": Word(_("No isolation: own or unsafe jobs only"), "danger", "warning"),
}

FINGERPRINT = {
    "accepted": Word(_("Accepted"), "success", "check"),
    "unstable": Word(_("Unstable"), "warning", "warning"),
    "refused": Word(_("Refused"), "danger", "cross"),
}

RENTAL = {
    "fixed": Word(_("Fixed price"), "info", "check"),
    "spot": Word(_("Spot price: may be pre-empted"), "warning", "bolt"),
}

RESOURCE = {
    "core": Word(_("Core-hours"), "info", "cpu"),
    "card": Word(_("Card-hours"), "info", "card"),
    "memory_gib": Word(_("Memory, GiB-hours"), "info", "node"),
    "storage_gib": Word(_("Storage, GiB-hours"), "info", "file"),
    "network_byte": Word(_("Data transfer, GB"), "info", "link"),
}

FAULT = {
    "": Word(_("Nobody"), "quiet", "dot"),
    "none": Word(_("Nobody"), "quiet", "dot"),
    "tenant": Word(_("The job itself"), "warning", "job"),
    "provider": Word(_("The provider's node"), "danger", "node"),
    "platform": Word(_("The platform"), "danger", "building"),
}

REASON = {
    "finished": Word(_("Finished"), "success", "check"),
    "exit_nonzero": Word(_("The command ended with an error code"), "danger", "cross"),
    "setup_failed": Word(_("The setup command failed"), "danger", "cross"),
    "out_of_memory": Word(_("It needed more memory than it asked for"), "danger", "cross"),
    "disk_full": Word(_("It needed more disk than it asked for"), "danger", "cross"),
    "output_missing": Word(_("A required output was not written"), "danger", "cross"),
    "output_refused": Word(_("An output could not be taken"), "danger", "cross"),
    "input_unreadable": Word(_("An input could not be read"), "danger", "cross"),
    "image_refused": Word(_("The image could not be used"), "danger", "cross"),
    "time_limit": Word(_("It ran longer than its limit"), "danger", "clock"),
    "cancelled_by_tenant": Word(_("Cancelled by your organisation"), "quiet", "ban"),
    "budget_exhausted": Word(_("Its budget is used up"), "warning", "coin"),
    "balance_exhausted": Word(_("The prepaid balance is used up"), "warning", "coin"),
    "organisation_suspended": Word(_("The organisation is suspended"), "danger", "ban"),
    "preempted": Word(_("Pre-empted by a job with a fixed price"), "warning", "swap"),
    "node_lost": Word(_("The node went silent"), "danger", "offline"),
    "node_rebooted": Word(_("The node restarted"), "danger", "retry"),
    "not_accepted": Word(_("The node did not accept it in time"), "warning", "hourglass"),
    "node_drained": Word(_("The node was taken out of service"), "warning", "pause"),
    "device_error": Word(_("A card of the node failed"), "danger", "card"),
    "start_failed": Word(_("The node could not start it"), "danger", "cross"),
    "start_timeout": Word(_("The node took too long to start it"), "danger", "clock"),
    "report_forged": Word(_("The node's report was not genuine"), "danger", "shield"),
    "platform_fault": Word(_("The platform was at fault"), "danger", "building"),
    "upload_failed": Word(_("Outputs could not be stored"), "danger", "upload"),
    "stopped_by_operator": Word(_("Stopped by the operator"), "warning", "stop"),
    "no_capacity": Word(_("No capacity was found in time"), "warning", "hourglass"),
    "deadline_passed": Word(_("Its deadline passed"), "warning", "clock"),
    "needs_failed": Word(_("A step it needs failed"), "danger", "cross"),
    "array_failures": Word(_("Too many parts of the array failed"), "danger", "cross"),
}

WAITING = {
    "region_not_wanted": Word(_("Region not among the wanted ones")),
    "region_avoided": Word(_("Region to be avoided")),
    "summary_expired": Word(_("Region has not reported lately")),
    "region_scu_short": Word(_("Region has too little compute left")),
    "link_over_latency": Word(_("Too far away: latency over the limit")),
    "link_expired": Word(_("Link not measured lately")),
    "zone_short": Word(_("Zone has too little left")),
    "fingerprint_below": Word(_("Slower than asked for")),
    "cores_short": Word(_("Too few free cores")),
    "memory_short": Word(_("Too little free memory")),
    "disk_short": Word(_("Too little free disk")),
    "cards_short": Word(_("Too few free cards")),
    "card_kind_differs": Word(_("Other kind of card")),
    "image_unsupported": Word(_("Cannot run this image")),
    "price_over_max": Word(_("Dearer than the highest price")),
    "currency_differs": Word(_("Sold in another currency")),
    "green_under_min": Word(_("Less green power than asked for")),
    "reliability_under_min": Word(_("Less reliable than asked for")),
    "unverified": Word(_("Performance not verified")),
    "offer_closed_now": Word(_("Offer closed at this hour")),
    "offer_ends_early": Word(_("Offer ends too early")),
    "node_suspect": Word(_("Node silent for a moment")),
    "node_draining": Word(_("Node being taken out of service")),
    "node_kept": Word(_("Node kept for another job")),
    "lease_class_unsupported": Word(_("Does not offer this failover class")),
    "excluded_after_failure": Word(_("Failed this job before")),
    "tenant_refused": Word(_("Provider does not take this organisation's jobs")),
    "needs_unfinished": Word(_("An earlier step is not finished")),
    "array_limit": Word(_("As many parts run as allowed")),
    "start_later": Word(_("Starts later, at a better hour")),
    "awaiting_choice": Word(_("Waits for your choice of a placement")),
    "quote_outdated": Word(_("The quoted terms can no longer be kept: please quote again")),
    "budget_held": Word(_("Budget used up: waits until it is raised")),
    "balance_short": Word(_("The balance is too low: waits for a top-up")),
    "quota_full": Word(_("The organisation's quota is full")),
    "gang_incomplete": Word(_("Not all nodes of the group are free together")),
    "preempting": Word(_("A spot job is making room")),
    "taken_meanwhile": Word(_("Another job took the place")),
    "deadline_passed": Word(_("Would end after the deadline")),
    "no_offers": Word(_("Nothing is on offer")),
    "no_capacity": Word(_("No node fits now")),
}

OBJECTIVE = {
    "cost": Word(_("Cost"), "info", "coin"),
    "time": Word(_("Finish"), "info", "clock"),
    "green": Word(_("Green power"), "info", "leaf"),
    "transfer": Word(_("Data transfer"), "info", "link"),
}

PICK = {
    "ask": Word(_("Let me choose")),
    "knee": Word(_("Best compromise")),
    "cheapest": Word(_("Cheapest")),
    "fastest": Word(_("Fastest")),
    "greenest": Word(_("Greenest")),
    "weights": Word(_("By my weights")),
}

TASK_TYPE = {
    "training": Word(_("Training")),
    "inference": Word(_("Inference")),
    "data": Word(_("Data preparation")),
    "simulation": Word(_("Simulation")),
    "render": Word(_("Rendering")),
    "custom": Word(_("Something else")),
}

PRESET = {
    "inference": Word(_("Answers near the people who ask")),
    "training": Word(_("Training on strong, well connected machines")),
    "night": Word(_("Night batch on idle capacity")),
    "docking": Word(_("Thousands of small tasks on green power")),
    "render": Word(_("Frames on cards")),
    "resident": Word(_("Data that stays in its region")),
}

DISCONNECT = {
    "replace": Word(_("Start it elsewhere at once")),
    "wait": Word(_("Wait for the node to come back")),
    "stop": Word(_("Stop the job")),
}

EVENT = {
    "job.queued": Word(_("Job queued"), "info", "hourglass"),
    "job.running": Word(_("Job running"), "success", "play"),
    "job.done": Word(_("Job done"), "success", "check"),
    "job.failed": Word(_("Job failed"), "danger", "cross"),
    "job.cancelled": Word(_("Job cancelled"), "quiet", "ban"),
    "job.changed": Word(_("Job changed"), "info", "job"),
    "job.cancel_requested": Word(_("Cancel asked for"), "quiet", "stop"),
    "attempt.assigned": Word(_("Attempt assigned to a node"), "info", "arrow"),
    "attempt.accepted": Word(_("Node took the attempt"), "info", "check"),
    "attempt.stopping": Word(_("Attempt is being stopped"), "warning", "stop"),
    "attempt.started": Word(_("Attempt started"), "success", "play"),
    "attempt.ended": Word(_("Attempt ended"), "quiet", "dot"),
    "attempt.unreachable": Word(_("Node went silent"), "warning", "offline"),
    "attempt.returned": Word(_("Node came back"), "success", "check"),
    "task.waiting": Word(_("Waiting reason changed"), "info", "clock"),
    "task.queued": Word(_("Task queued again"), "info", "retry"),
    "task.placed": Word(_("Task placed"), "info", "arrow"),
}

KINDS: dict[str, dict[str, Word]] = {
    "job": JOB,
    "task": TASK,
    "attempt": ATTEMPT,
    "phase": PHASE,
    "lease": LEASE,
    "lease_class": LEASE_CLASS,
    "node": NODE,
    "contact": CONTACT,
    "check": CHECK,
    "check_name": CHECK_NAME,
    "offer": OFFER,
    "quote": QUOTE,
    "artefact": ARTEFACT,
    "webhook": WEBHOOK,
    "invoice": INVOICE,
    "bank_transfer": BANK_TRANSFER,
    "period": PERIOD,
    "hold": HOLD,
    "payment": PAYMENT,
    "payment_for": PAYMENT_FOR,
    "hosted_page": PAGE,
    "refund": REFUND,
    "dispute": DISPUTE,
    "payout": PAYOUT,
    "payout_wait": PAYOUT_WAIT,
    "kyc": KYC,
    "inbox": INBOX,
    "organisation": ORGANISATION,
    "role": ROLE,
    "tier": TIER,
    "isolation": ISOLATION,
    "fingerprint": FINGERPRINT,
    "rental": RENTAL,
    "resource": RESOURCE,
    "fault": FAULT,
    "reason": REASON,
    "waiting": WAITING,
    "objective": OBJECTIVE,
    "pick": PICK,
    "task_type": TASK_TYPE,
    "preset": PRESET,
    "disconnect": DISCONNECT,
    "event": EVENT,
}


def word(kind: str, value: object) -> Word:
    """The word for a stored value. An unknown value is shown as it is, quietly: a page never breaks over a new state."""
    text = str(getattr(value, "value", value) or "")
    return KINDS[kind].get(text) or Word(text.replace("_", " ").replace(".", ": "))
