"""Providers' machines, their cards, and how they join."""

from enum import StrEnum

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from marketplace.models.places import Zone
from portal import ids


class NodeState(StrEnum):
    """The life of an enrolment (house §7). The capacity row of scheduling has the same name; it lives there."""

    INVITED = "invited"
    PROBING = "probing"
    LISTED = "listed"
    DRAINING = "draining"
    RETIRED = "retired"


class Isolation(StrEnum):
    FULL = "full"
    BWRAP = "bwrap"
    NONE = "none"


def new_node_id() -> str:
    return ids.public_id("nod")


def new_enrolment_id() -> str:
    return ids.public_id("enr")


class Node(models.Model):
    """One machine. Capacity that is free right now lives in scheduling; this is what the machine is."""

    public_id = models.CharField(max_length=32, unique=True, default=new_node_id, editable=False)
    organisation = models.ForeignKey("accounts.Organisation", models.PROTECT, related_name="nodes")
    zone = models.ForeignKey(Zone, models.PROTECT, related_name="nodes")
    name = models.CharField(max_length=80)
    state = models.CharField(max_length=10, default=NodeState.INVITED)
    secret_hash = models.CharField(max_length=64, blank=True)
    boot_id = models.CharField(max_length=64, blank=True)
    incarnation = models.PositiveIntegerField(default=0)  # one per agent start; an older one is superseded
    isolation = models.CharField(max_length=5, default=Isolation.NONE)
    lease_classes = ArrayField(models.CharField(max_length=10), default=list)
    cores_milli = models.PositiveIntegerField(default=0)  # thousandths of a core for sale
    memory_mib = models.PositiveIntegerField(default=0)
    disk_gib = models.PositiveIntegerField(default=0)
    arch = models.CharField(max_length=40, blank=True)  # x86_64, aarch64
    cpu_model = models.CharField(max_length=200, blank=True)
    machine_cores = models.PositiveIntegerField(default=0)  # of the whole machine; this node may sell a share
    system = models.CharField(max_length=200, blank=True)  # distribution, as the agent names it
    executor = models.CharField(max_length=40, blank=True)  # bwrap, process
    cgroups = models.CharField(max_length=20, blank=True)  # v2, v1, hybrid, none
    hardware_hash = models.CharField(max_length=64, blank=True)
    agent_version = models.CharField(max_length=40, blank=True)
    checks = models.JSONField(default=list)  # onboarding: [{name, state: waiting|passed|failed, detail, fix, at}]
    wanted = ArrayField(
        models.CharField(max_length=20), default=list
    )  # orders for the agent: self_test, fingerprint, inventory
    reliability_ppm = models.PositiveIntegerField(null=True)  # null = new: fewer than 20 samples
    reliability_samples = models.PositiveIntegerField(default=0)
    doubted_at = models.DateTimeField(null=True)  # failed in use: only what was measured later verifies the node
    doubt = models.CharField(max_length=200, blank=True)
    soak_s = models.PositiveIntegerField(
        default=0
    )  # of the next ordered measurement: seconds under load, for throttling
    refuse_past_due = models.BooleanField(default=True)
    created_at = models.DateTimeField()
    enrolled_at = models.DateTimeField(null=True)
    drain_deadline = models.DateTimeField(null=True)
    retired_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(state__in=[s.value for s in NodeState]), name="node_state_known"),
            models.CheckConstraint(
                condition=Q(isolation__in=[i.value for i in Isolation]), name="node_isolation_known"
            ),
        ]

    def __str__(self) -> str:
        return self.name or self.public_id


class Device(models.Model):
    """A card. `virtual` = no hardware behind it: demo and test profiles only, labelled wherever it is shown, sold or
    billed.
    """

    node = models.ForeignKey(Node, models.CASCADE, related_name="devices")
    local_id = models.CharField(max_length=100)  # the plug-in's id, stable on that machine
    kind = models.CharField(max_length=40)  # the plug-in: nvidia, virtual
    model = models.CharField(max_length=100)  # the name of contracts: A100-80GB, virtual
    memory_mib = models.PositiveIntegerField(default=0)
    driver = models.CharField(max_length=100, blank=True)
    virtual = models.BooleanField(default=False)
    present = models.BooleanField(default=True)  # false: the agent no longer reports it

    class Meta:
        constraints = [models.UniqueConstraint(fields=["node", "local_id"], name="device_once_per_node")]

    def __str__(self) -> str:
        return f"{self.model} {self.local_id}"


class Enrolment(models.Model):
    """A one-time token with which a machine joins; it may carry the terms of an offer that is published at once."""

    public_id = models.CharField(max_length=32, unique=True, default=new_enrolment_id, editable=False)
    organisation = models.ForeignKey("accounts.Organisation", models.PROTECT, related_name="enrolments")
    zone = models.ForeignKey(Zone, models.PROTECT)
    name = models.CharField(max_length=80)
    token_hash = models.CharField(max_length=64, unique=True)
    terms = models.JSONField(null=True)  # as offers.publish takes them, or null
    created_by = models.CharField(max_length=80)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    node = models.OneToOneField(Node, models.PROTECT, null=True, related_name="enrolment")

    def __str__(self) -> str:
        return self.public_id


class Inventory(models.Model):
    """What programs the system tree of a node holds, as last probed (shown on offers)."""

    node = models.OneToOneField(Node, models.CASCADE, related_name="inventory")
    runtime = models.JSONField(default=dict)  # {"os": …, "arch": …, "programs": {"python3": "3.11.2", …}}
    probed_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"inventory of {self.node}"
