"""Scheduling in Django's admin: everything to read, links to configure. What has rules of its own is changed by services, not here."""

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest

from portal import clock
from portal.kit.money import MAX_UNIT_PRICE_MICRO
from scheduling.models import (
    Artefact,
    Attempt,
    Job,
    JobEvent,
    Lease,
    Link,
    NodeState,
    PlacementDecision,
    Quote,
    Task,
)
from scheduling.services import links


class ReadOnly(admin.ModelAdmin):
    """To look, not to touch."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Job)
class JobAdmin(ReadOnly):
    list_display = ("public_id", "name", "organisation", "state", "priority", "created_at")
    list_filter = ("state",)
    search_fields = ("public_id", "name")


@admin.register(Task)
class TaskAdmin(ReadOnly):
    list_display = ("public_id", "job", "name", "state", "fence", "queued_at")
    list_filter = ("state",)
    search_fields = ("public_id",)


@admin.register(Attempt)
class AttemptAdmin(ReadOnly):
    list_display = ("public_id", "task", "node", "fence", "state", "reason", "assigned_at")
    list_filter = ("state", "reason")
    search_fields = ("public_id",)


@admin.register(Lease)
class LeaseAdmin(ReadOnly):
    list_display = ("public_id", "node", "fence", "state", "lease_class", "cores_milli", "cards", "created_at")
    list_filter = ("state", "lease_class")
    search_fields = ("public_id",)
    exclude = ("secret_hash",)


@admin.register(NodeState)
class NodeStateAdmin(ReadOnly):
    list_display = (
        "node",
        "open",
        "free_cores_milli",
        "free_memory_mib",
        "free_disk_gib",
        "free_cards",
        "last_sync_at",
    )


@admin.register(Quote)
class QuoteAdmin(ReadOnly):
    list_display = ("public_id", "organisation", "state", "created_at", "expires_at")
    list_filter = ("state",)
    search_fields = ("public_id",)


@admin.register(PlacementDecision)
class DecisionAdmin(ReadOnly):
    list_display = ("public_id", "task", "attempt", "decided_at")
    search_fields = ("public_id",)


@admin.register(JobEvent)
class EventAdmin(ReadOnly):
    list_display = ("public_id", "job", "sequence", "type", "created_at")
    list_filter = ("type",)


@admin.register(Artefact)
class ArtefactAdmin(ReadOnly):
    list_display = ("public_id", "name", "job", "state", "size_bytes", "expires_at")
    list_filter = ("state",)
    search_fields = ("public_id", "name")


class LinkForm(forms.ModelForm):
    price_micro_per_gb = forms.IntegerField(min_value=0, max_value=MAX_UNIT_PRICE_MICRO)
    bandwidth_mbps = forms.IntegerField(min_value=1, required=False)

    class Meta:
        model = Link
        fields = ("source", "target", "rtt_us", "bandwidth_mbps", "price_micro_per_gb", "currency", "figures_source")


@admin.register(Link)
class LinkAdmin(admin.ModelAdmin):
    """A link is configured through the service, so that it is checked and written to the audit trail."""

    form = LinkForm
    list_display = ("source", "target", "rtt_us", "bandwidth_mbps", "price_micro_per_gb", "currency", "updated_at")
    list_filter = ("source",)

    def save_model(self, request: HttpRequest, obj: Link, form: Any, change: bool) -> None:
        made = links.configure(
            source=obj.source,
            target=obj.target,
            rtt_us=obj.rtt_us,
            bandwidth_mbps=obj.bandwidth_mbps,
            price_micro_per_gb=obj.price_micro_per_gb,
            currency=obj.currency,
            figures_source=obj.figures_source,
            by=getattr(request.user, "public_id", "system"),
            now=clock.now(),
        )
        obj.pk, obj.updated_at = made.pk, made.updated_at
