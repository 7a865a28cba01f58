"""Shapes of scheduling at the door. The job spec itself is read by `scheduling.domain.spec`, which finds every fault at once."""

from typing import Any

from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from billing.api.serializers import MoneyOut
from portal.api.serializers import Strict
from scheduling.domain import spec_values
from scheduling.domain.spec_values import Wrong


class QuoteIn(Strict):
    spec = serializers.JSONField(help_text="A job spec: an object, or YAML as text.")


class JobIn(Strict):
    spec = serializers.JSONField(
        required=False, default=None, allow_null=True, help_text="May be left out with a quote."
    )
    quote = serializers.CharField(required=False, default="", allow_blank=True, max_length=32)
    point = serializers.IntegerField(required=False, default=None, allow_null=True, min_value=0, max_value=1_000)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["spec"] is None and not attrs["quote"]:
            detail = serializers.ErrorDetail(_("give a spec, or a quote"), code="field_required")
            raise serializers.ValidationError({"spec": [detail]})
        return attrs


@extend_schema_field(OpenApiTypes.STR)
class Amount(serializers.Field):
    """An amount as text (or a whole number), never a float."""

    def __init__(self, reader: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reader = reader

    def to_internal_value(self, data: Any) -> Any:
        try:
            return self.reader(data)
        except Wrong as wrong:
            message = _(wrong.message).format(**wrong.gaps)
            raise serializers.ValidationError(message, code=wrong.code) from None

    def to_representation(self, value: Any) -> Any:
        return value


class JobChange(Strict):
    priority = serializers.IntegerField(required=False, min_value=0, max_value=9)
    labels = serializers.DictField(child=serializers.CharField(max_length=200, allow_blank=True), required=False)
    max_price = Amount(spec_values.price_micro, required=False, allow_null=True)
    budget = serializers.JSONField(required=False, allow_null=True)


class JobFilter(Strict):
    state = serializers.CharField(required=False, default="", allow_blank=True)
    project = serializers.CharField(required=False, default="", allow_blank=True, max_length=63)
    label = serializers.RegexField(r"^[^=]{1,63}=.{0,200}$", required=False, default="", allow_blank=True)  # type: ignore[assignment]
    since = serializers.DateTimeField(required=False, default=None)
    q = serializers.CharField(required=False, default="", allow_blank=True, max_length=63)

    def validate_state(self, value: str) -> list[str]:
        known = {"queued", "running", "done", "failed", "cancelled"}
        states = [state for state in value.split(",") if state]
        if set(states) - known:
            raise serializers.ValidationError(
                _("one of {known}").format(known=", ".join(sorted(known))), code="bad_value"
            )
        return states


class EventFilter(Strict):
    since = serializers.IntegerField(required=False, default=0, min_value=0)


class LinkFilter(Strict):
    source = serializers.CharField(required=False, default="", allow_blank=True, max_length=63)  # type: ignore[assignment]
    target = serializers.CharField(required=False, default="", allow_blank=True, max_length=63)


class PlaceNode(serializers.Serializer):
    id = serializers.CharField()
    name = serializers.CharField()


class CostOut(serializers.Serializer):
    low = MoneyOut()
    expected = MoneyOut()
    high = MoneyOut()


class PointOut(serializers.Serializer):
    index = serializers.IntegerField()
    node = PlaceNode()
    offer = serializers.CharField()
    region = serializers.CharField()
    zone = serializers.CharField()
    provider = serializers.CharField()
    isolation = serializers.CharField()
    virtual = serializers.BooleanField()
    card_model = serializers.CharField()
    cards = serializers.IntegerField()
    rental = serializers.CharField()
    price_per_hour = MoneyOut()
    cost = CostOut()
    values = serializers.DictField()
    time_s = serializers.IntegerField()
    expected_s = serializers.IntegerField()
    green_ratio = serializers.CharField(allow_null=True)
    scu = serializers.CharField(allow_null=True)
    transfer = serializers.DictField()
    prices = serializers.DictField()
    window = serializers.DictField(allow_null=True)
    carbon = serializers.DictField(
        allow_null=True,
        help_text="grams, watt_hours, grams_per_kwh (null = unknown), basis hourly|yearly|unknown, accounting "
        "location-based; with slack also greener_start: at, grams, saved_percent",
    )
    roles = serializers.ListField(child=serializers.CharField())


class QuoteOut(serializers.Serializer):
    id = serializers.CharField()
    state = serializers.ChoiceField(["open", "used", "expired"])
    project = serializers.CharField()
    rental = serializers.CharField()
    currency = serializers.CharField()
    points = PointOut(many=True)
    pick = serializers.IntegerField(allow_null=True)
    reason = serializers.DictField()
    alternatives = serializers.ListField(child=serializers.DictField())
    warnings = serializers.ListField(child=serializers.DictField())
    helps = serializers.ListField(child=serializers.DictField())
    task_type = serializers.DictField(
        allow_null=True, help_text="the guess: kind, evidence, found, sure; null when the spec names one"
    )
    run_time = serializers.DictField(
        allow_null=True,
        help_text="what past runs say: basis, confidence, runs, low_s, seconds, high_s; null with `work`",
    )
    seen = serializers.DictField()
    tiers = serializers.ListField(child=serializers.DictField())
    refused = serializers.ListField(child=serializers.DictField())
    spec = serializers.DictField()
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()


class JobOut(serializers.Serializer):
    id = serializers.CharField()
    name = serializers.CharField()
    project = serializers.CharField()
    state = serializers.ChoiceField(["queued", "running", "done", "failed", "cancelled"])
    reason = serializers.CharField()
    priority = serializers.IntegerField()
    labels = serializers.DictField()
    rental = serializers.CharField()
    currency = serializers.CharField()
    max_price = MoneyOut(allow_null=True)
    budget = serializers.DictField(allow_null=True)
    quote = serializers.CharField(allow_null=True)
    point = serializers.IntegerField(allow_null=True)
    cap = serializers.DictField()
    waiting = serializers.DictField(allow_null=True)
    attempt = serializers.DictField(
        allow_null=True, help_text="The attempt that holds a place now: id, state, phase, node."
    )
    tasks = serializers.DictField()
    submitted_by = serializers.CharField()
    cancel_requested_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    spec = serializers.DictField(required=False)


class TaskOut(serializers.Serializer):
    id = serializers.CharField()
    name = serializers.CharField()
    index = serializers.IntegerField()
    state = serializers.CharField()
    fence = serializers.IntegerField()
    reason = serializers.CharField()
    text = serializers.CharField()
    waiting = serializers.DictField(allow_null=True)
    waiting_since = serializers.DateTimeField(allow_null=True)
    not_before = serializers.DateTimeField(allow_null=True)
    excluded_nodes = serializers.ListField(child=serializers.CharField())
    retries_asked = serializers.IntegerField()
    queued_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)


class AttemptOut(serializers.Serializer):
    id = serializers.CharField()
    task = serializers.CharField()
    task_name = serializers.CharField()
    number = serializers.IntegerField()
    fence = serializers.IntegerField()
    node = PlaceNode()
    region = serializers.CharField()
    zone = serializers.CharField()
    provider = serializers.CharField()
    state = serializers.CharField()
    phase = serializers.CharField()
    resumed_from = serializers.CharField(allow_null=True, help_text="The checkpoint that it began with.")
    frozen = serializers.BooleanField()
    network_bytes = serializers.IntegerField(
        allow_null=True, help_text="Carried both ways by `network: allow`; null: no network, or nothing told yet."
    )
    isolation = serializers.CharField()
    reason = serializers.CharField(allow_null=True)
    fault = serializers.CharField(allow_null=True)
    billed = serializers.BooleanField(allow_null=True)
    exit_code = serializers.IntegerField(allow_null=True)
    message = serializers.CharField()
    text = serializers.CharField()
    replaced_by = serializers.CharField(allow_null=True)
    displaced_by = serializers.CharField(allow_null=True)
    decision = serializers.CharField(allow_null=True)
    assigned_at = serializers.DateTimeField()
    accepted_at = serializers.DateTimeField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    proven_until = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    lease = serializers.DictField(allow_null=True)


class EventOut(serializers.Serializer):
    id = serializers.CharField()
    sequence = serializers.IntegerField()
    type = serializers.CharField()
    task = serializers.CharField(allow_null=True)
    attempt = serializers.CharField(allow_null=True)
    data = serializers.DictField()  # type: ignore[assignment]
    created_at = serializers.DateTimeField()


class JobCostOut(serializers.Serializer):
    job = serializers.CharField()
    final = serializers.BooleanField()
    total = MoneyOut()
    lines = serializers.ListField(child=serializers.DictField())
    budget = serializers.DictField(allow_null=True)


class DecisionOut(serializers.Serializer):
    id = serializers.CharField()
    task = serializers.CharField()
    attempt = serializers.CharField(allow_null=True)
    decided = serializers.DateTimeField()
    versions = serializers.DictField()
    digest = serializers.CharField()
    choice = serializers.DictField()
    front = serializers.DictField()
    front_only = serializers.IntegerField(allow_null=True)
    alternatives = serializers.ListField(child=serializers.DictField())
    seen = serializers.DictField()
    tiers = serializers.ListField(child=serializers.DictField())
    transfer = serializers.DictField()


class ReplayOut(serializers.Serializer):
    decision = serializers.CharField()
    chosen = serializers.CharField()
    again = serializers.CharField(allow_null=True)
    same = serializers.BooleanField()
    digest = serializers.CharField()
    untouched = serializers.BooleanField()


class ExplainOut(serializers.Serializer):
    job = serializers.CharField()
    task = serializers.CharField()
    state = serializers.CharField()
    text = serializers.CharField()
    attempts = serializers.ListField(child=serializers.DictField())
    since = serializers.DateTimeField(required=False)
    reason = serializers.DictField(required=False, allow_null=True)
    position = serializers.IntegerField(required=False, allow_null=True)
    start = serializers.DictField(required=False, allow_null=True)
    start_unknown = serializers.CharField(required=False, allow_null=True)
    tiers = serializers.ListField(child=serializers.DictField(), required=False)
    helps = serializers.ListField(child=serializers.DictField(), required=False)
    placed = serializers.DictField(required=False)
    ended = serializers.DictField(required=False)


class LinkOut(serializers.Serializer):
    source = serializers.CharField()  # type: ignore[assignment]
    target = serializers.CharField()
    rtt_ms = serializers.CharField(allow_null=True)
    bandwidth_mbps = serializers.IntegerField(allow_null=True)
    price_per_gb = MoneyOut()
    age_s = serializers.IntegerField()
    figures_source = serializers.CharField()
    updated = serializers.DateTimeField()
    believed = serializers.DictField(
        allow_null=True,
        help_text="what counts now: state fresh|late|expired, rtt_ms, bandwidth_mbps, measured, age_s, damped, worsening; "
        "null = nobody measures this link and its configured figures count",
    )


class CapacityOut(serializers.Serializer):
    known = serializers.BooleanField()
    total = serializers.DictField(allow_null=True)
    regions = serializers.ListField(child=serializers.DictField())


class CapacityNodesOut(serializers.Serializer):
    items = serializers.ListField(child=serializers.DictField())
