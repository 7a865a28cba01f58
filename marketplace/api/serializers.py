"""Shapes of the market at the door. Rows are shown by the functions of :mod:`marketplace.api.shown`."""

from decimal import Decimal

from rest_framework import serializers

from marketplace.models.fingerprints import FingerprintState
from marketplace.models.nodes import Isolation, NodeState
from marketplace.models.offers import OfferState
from marketplace.models.places import Tier
from portal.api.serializers import Strict


class Coordinates(serializers.Serializer):
    lat = serializers.DecimalField(max_digits=8, decimal_places=5, coerce_to_string=False)
    lon = serializers.DecimalField(max_digits=8, decimal_places=5, coerce_to_string=False)


class RegionOut(serializers.Serializer):
    slug = serializers.CharField()
    name = serializers.CharField()
    country = serializers.CharField()
    coordinates = Coordinates()
    green_ratio = serializers.CharField(allow_null=True)
    carbon_g_per_kwh = serializers.IntegerField(allow_null=True)
    figures_source = serializers.CharField()
    zones = serializers.ListField(child=serializers.CharField())
    nodes = serializers.IntegerField()


class ZoneOut(serializers.Serializer):
    region = serializers.CharField()
    slug = serializers.CharField()
    name = serializers.CharField()
    tier = serializers.ChoiceField([t.value for t in Tier])
    pue = serializers.CharField(allow_null=True)
    failure_domain = serializers.CharField()
    coordinates = Coordinates()
    nodes = serializers.IntegerField()


class CheckOut(serializers.Serializer):
    name = serializers.CharField()
    state = serializers.ChoiceField(["waiting", "passed", "failed"])
    detail = serializers.CharField()
    fix = serializers.CharField()
    at = serializers.DateTimeField(allow_null=True)


class DeviceOut(serializers.Serializer):
    id = serializers.CharField()
    kind = serializers.CharField()
    model = serializers.CharField()
    memory_mib = serializers.IntegerField()
    driver = serializers.CharField()
    virtual = serializers.BooleanField()
    present = serializers.BooleanField()


class NodeOut(serializers.Serializer):
    id = serializers.CharField()
    name = serializers.CharField()
    state = serializers.ChoiceField([s.value for s in NodeState])
    region = serializers.CharField()
    zone = serializers.CharField()
    isolation = serializers.ChoiceField([i.value for i in Isolation])
    executor = serializers.CharField()
    cgroups = serializers.CharField()
    lease_classes = serializers.ListField(child=serializers.CharField())
    cores = serializers.CharField()
    memory_gib = serializers.CharField()
    disk_gib = serializers.IntegerField()
    arch = serializers.CharField()
    cpu_model = serializers.CharField()
    system = serializers.CharField()
    agent_version = serializers.CharField()
    devices = DeviceOut(many=True)
    checks = CheckOut(many=True)
    runtime = serializers.DictField()
    offer = serializers.CharField(allow_null=True)
    refuse_past_due = serializers.BooleanField()
    reliability = serializers.CharField(allow_null=True)
    reliability_samples = serializers.IntegerField()
    created = serializers.DateTimeField()
    enrolled = serializers.DateTimeField(allow_null=True)
    drain_deadline = serializers.DateTimeField(allow_null=True)
    retired = serializers.DateTimeField(allow_null=True)


class InvitedOut(serializers.Serializer):
    node = serializers.CharField()
    name = serializers.CharField()
    region = serializers.CharField()
    zone = serializers.CharField()
    token = serializers.CharField(help_text="Shown once.")
    line = serializers.CharField()
    expires = serializers.DateTimeField()


class TermsIn(Strict):
    """Read in full by `marketplace.domain.pricing.read_terms`, which finds every fault at once."""

    prices = serializers.JSONField(required=False)
    spot_prices = serializers.JSONField(required=False)
    spot_factor = serializers.JSONField(required=False)
    tiers = serializers.JSONField(required=False)
    windows = serializers.JSONField(required=False)
    hours = serializers.JSONField(required=False)
    green_ratio = serializers.JSONField(required=False, allow_null=True)
    until = serializers.JSONField(required=False, allow_null=True)
    refuse_past_due = serializers.BooleanField(required=False)
    currency = serializers.CharField(required=False, max_length=3)


class InviteIn(TermsIn):
    region = serializers.CharField(max_length=63)
    zone = serializers.CharField(max_length=63, default="", allow_blank=True)
    name = serializers.CharField(max_length=80, default="", allow_blank=True)


class DrainIn(Strict):
    deadline = serializers.DateTimeField(required=False, allow_null=True, default=None)


class PublishIn(TermsIn):
    node = serializers.CharField(max_length=80)


RepriceIn = type(
    "RepriceIn",
    (TermsIn,),
    {
        "from": serializers.DateTimeField(required=False, allow_null=True),
        "__doc__": "As terms; `from`: when it begins.",
    },
)


class FingerprintOut(serializers.Serializer):
    id = serializers.CharField()
    suite = serializers.CharField()
    short = serializers.BooleanField()
    state = serializers.ChoiceField([s.value for s in FingerprintState])
    reason = serializers.CharField()
    measured = serializers.DateTimeField()
    valid_until = serializers.DateTimeField()
    valid = serializers.BooleanField()
    metrics = serializers.DictField()


class NodeRef(serializers.Serializer):
    id = serializers.CharField()
    name = serializers.CharField()


class OfferOut(serializers.Serializer):
    id = serializers.CharField()
    kind = serializers.ChoiceField(["live", "reference"])
    state = serializers.ChoiceField([s.value for s in OfferState], required=False)
    node = NodeRef(required=False, allow_null=True)
    provider = serializers.CharField()
    provider_name = serializers.CharField()
    region = serializers.CharField(allow_null=True)
    zone = serializers.CharField(allow_null=True)
    gpu_name = serializers.CharField(allow_null=True)
    num_gpus = serializers.IntegerField()
    virtual = serializers.BooleanField()
    isolation = serializers.CharField(allow_null=True)
    cpu_cores = serializers.CharField(allow_null=True)
    cpu_ram = serializers.CharField(allow_null=True)
    disk_space = serializers.IntegerField(allow_null=True)
    currency = serializers.CharField()
    dph = serializers.CharField(allow_null=True)
    spot_dph = serializers.CharField(allow_null=True)
    price_core_hour = serializers.CharField(allow_null=True)
    price_card_hour = serializers.CharField(allow_null=True)
    window_open = serializers.BooleanField(allow_null=True)
    green_ratio = serializers.CharField(allow_null=True)
    reliability = serializers.CharField(allow_null=True)
    reliability_samples = serializers.IntegerField(allow_null=True)
    scu = serializers.CharField(allow_null=True)
    scu_per_price = serializers.CharField(allow_null=True)
    rtt_ms = serializers.CharField(allow_null=True)
    declared = serializers.DictField()
    measured = serializers.DictField(allow_null=True)


class PriceVersionOut(serializers.Serializer):
    id = serializers.CharField()
    sku = serializers.CharField()
    price = serializers.CharField()
    currency = serializers.CharField()
    tiers = serializers.ListField()
    since = serializers.DateTimeField()
    until = serializers.DateTimeField(allow_null=True)


class OfferQuery(Strict):
    filter = serializers.CharField(default="", allow_blank=True, max_length=4000)
    order = serializers.CharField(default="", allow_blank=True, max_length=200)
    task_type = serializers.CharField(default="", allow_blank=True, max_length=20)
    cores = serializers.DecimalField(max_digits=8, decimal_places=1, min_value=0, default=Decimal(1))
    cards = serializers.IntegerField(required=False, min_value=0, max_value=1000)
    no_default = serializers.BooleanField(default=False)
    mine = serializers.BooleanField(default=False)
    kind = serializers.ChoiceField(["live", "reference", ""], default="")


OfferQuery._declared_fields["from"] = serializers.CharField(default="", allow_blank=True, max_length=63)
