"""Billing's rows for operators: to look at. Nothing here is changed by hand; the database would refuse it."""

from typing import Any

from django.contrib import admin

from billing import models


class ReadOnly(admin.ModelAdmin):
    """No add, no change, no delete."""

    def has_add_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        return False


@admin.register(models.UsageRecord)
class UsageRecordAdmin(ReadOnly):
    list_display = ("attempt_ref", "resource", "seq", "started_at", "ended_at", "qty_us", "state", "oddity")
    list_filter = ("state", "resource", "demo")
    search_fields = ("attempt_ref", "job_ref")


@admin.register(models.UsageAnomaly)
class UsageAnomalyAdmin(ReadOnly):
    list_display = ("kind", "attempt_ref", "resource", "seq", "received_at")
    list_filter = ("kind",)


@admin.register(models.AttemptEnding)
class AttemptEndingAdmin(ReadOnly):
    list_display = ("attempt_ref", "reason", "fault", "billed", "ended_at")
    list_filter = ("reason", "billed")
    search_fields = ("attempt_ref",)


@admin.register(models.BillingPeriod)
class BillingPeriodAdmin(ReadOnly):
    list_display = ("organisation", "month", "starts_at", "ends_at", "timezone", "state")
    list_filter = ("state", "month")


@admin.register(models.Invoice)
class InvoiceAdmin(ReadOnly):
    list_display = ("number", "organisation", "period", "state", "currency", "total_minor", "paid_minor", "demo")
    list_filter = ("state", "currency", "demo")
    search_fields = ("number", "public_id")


@admin.register(models.InvoiceLine)
class InvoiceLineAdmin(ReadOnly):
    list_display = (
        "invoice",
        "position",
        "project_name",
        "provider_name",
        "sku",
        "qty_us",
        "amount_minor",
        "unbilled_reason",
    )


@admin.register(models.Account)
class AccountAdmin(ReadOnly):
    list_display = ("owner", "kind", "currency", "balance_minor")
    list_filter = ("kind", "currency")
    search_fields = ("owner",)


@admin.register(models.Txn)
class TxnAdmin(ReadOnly):
    list_display = ("idem_key", "kind", "currency", "reference", "at")
    list_filter = ("kind",)


@admin.register(models.Hold)
class HoldAdmin(ReadOnly):
    list_display = ("reference", "organisation", "amount_minor", "currency", "state", "created_at")
    list_filter = ("state",)
