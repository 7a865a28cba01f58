"""Django's admin, for rare repair by operators. What has rules of its own (roles, secrets, keys) is only looked at here."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from portal.accounts.models import ApiKey, Invitation, Membership, Organisation, Project, User
from portal.audit.models import AuditEvent
from portal.outbox.models import OutboxMessage


class LookedAt(admin.ModelAdmin):
    """Shown, never changed."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(User)
class Users(LookedAt):
    list_display = ("email", "name", "is_operator", "is_active", "last_login")
    search_fields = ("email", "name")
    exclude = ("password",)


@admin.register(Organisation)
class Organisations(LookedAt):
    list_display = ("slug", "name", "parent", "currency", "state", "provider_verified")
    search_fields = ("slug", "name", "public_id")


@admin.register(Project, Membership, Invitation)
class Parts(LookedAt):
    list_display = ("__str__", "organisation", "created_at")


@admin.register(ApiKey)
class Keys(LookedAt):
    list_display = ("__str__", "membership", "created_at", "expires_at", "revoked_at")
    exclude = ("secret_hash",)


@admin.register(AuditEvent)
class Audit(LookedAt):
    list_display = ("at", "actor", "deed", "target", "organisation_id")
    search_fields = ("actor", "deed", "target")


@admin.register(OutboxMessage)
class Outbox(LookedAt):
    list_display = ("topic", "key", "due_at", "sent_at", "tries", "last_error")
    list_filter = ("topic",)
