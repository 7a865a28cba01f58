"""Shapes of accounts at the door."""

from rest_framework import serializers

from portal.accounts.models import OrganisationState, Role
from portal.api.serializers import Strict
from portal.audit.models import AuditEvent


class OrganisationOut(serializers.Serializer):
    id = serializers.CharField(source="public_id")
    slug = serializers.CharField()
    name = serializers.CharField()
    parent = serializers.CharField(source="parent.slug", default=None, allow_null=True)  # type: ignore[assignment]
    currency = serializers.CharField()
    period_timezone = serializers.CharField()
    state = serializers.ChoiceField([s.value for s in OrganisationState])
    provider_verified = serializers.BooleanField()
    credit_limit_minor = serializers.IntegerField(allow_null=True)
    tax_id = serializers.CharField()
    address = serializers.CharField()
    country = serializers.CharField()
    created = serializers.DateTimeField(source="created_at")


class OrganisationIn(Strict):
    name = serializers.CharField(max_length=120)
    currency = serializers.CharField(max_length=3)
    period_timezone = serializers.CharField(max_length=40, default="UTC")
    slug = serializers.CharField(max_length=63, default="")
    parent = serializers.CharField(max_length=63, default=None, allow_null=True)  # type: ignore[assignment]


class OrganisationChange(Strict):
    name = serializers.CharField(max_length=120, required=False)
    period_timezone = serializers.CharField(max_length=40, required=False)
    tax_id = serializers.CharField(max_length=40, required=False, allow_blank=True)
    address = serializers.CharField(max_length=1000, required=False, allow_blank=True)
    country = serializers.RegexField(r"^([A-Z]{2})?$", required=False, allow_blank=True)
    parent = serializers.CharField(max_length=63, required=False, allow_null=True)  # type: ignore[assignment]


class ProjectOut(serializers.Serializer):
    id = serializers.CharField(source="public_id")
    slug = serializers.CharField()
    name = serializers.CharField()
    department = serializers.CharField()
    archived = serializers.DateTimeField(source="archived_at", allow_null=True)
    created = serializers.DateTimeField(source="created_at")


class ProjectIn(Strict):
    slug = serializers.CharField(max_length=63)
    name = serializers.CharField(max_length=120, default="", allow_blank=True)
    department = serializers.CharField(max_length=120, default="", allow_blank=True)


class ProjectChange(Strict):
    name = serializers.CharField(max_length=120, required=False)
    department = serializers.CharField(max_length=120, required=False, allow_blank=True)


class MemberOut(serializers.Serializer):
    id = serializers.CharField(source="user.public_id")
    email = serializers.EmailField(source="user.email")
    name = serializers.CharField(source="user.name")
    role = serializers.ChoiceField([r.value for r in Role])
    since = serializers.DateTimeField(source="created_at")


class InvitationIn(Strict):
    email = serializers.CharField(max_length=254)
    role = serializers.CharField(max_length=10)


class InvitationOut(serializers.Serializer):
    id = serializers.CharField(source="public_id")
    email = serializers.EmailField()
    role = serializers.ChoiceField([r.value for r in Role])
    created = serializers.DateTimeField(source="created_at")
    expires = serializers.DateTimeField(source="expires_at")


class InvitedPersonOut(InvitationOut):
    link = serializers.CharField(required=False)


class RoleIn(Strict):
    role = serializers.CharField(max_length=10)


class AcceptIn(Strict):
    token = serializers.CharField(max_length=100)


class KeyOut(serializers.Serializer):
    id = serializers.CharField(source="public_id")
    name = serializers.CharField()
    prefix = serializers.CharField()
    scopes = serializers.ListField(child=serializers.CharField())
    project = serializers.CharField(source="project.slug", default=None, allow_null=True)
    owner = serializers.CharField(source="membership.user.public_id")
    created = serializers.DateTimeField(source="created_at")
    expires = serializers.DateTimeField(source="expires_at", allow_null=True)
    last_used = serializers.DateTimeField(source="last_used_at", allow_null=True)
    revoked = serializers.DateTimeField(source="revoked_at", allow_null=True)


class MadeKeyOut(KeyOut):
    key = serializers.CharField(help_text="Shown once.")


class KeyIn(Strict):
    name = serializers.CharField(max_length=80)
    scopes = serializers.ListField(child=serializers.CharField(max_length=30), required=False, max_length=40)
    project = serializers.CharField(max_length=63, default=None, allow_null=True)
    expires = serializers.DateTimeField(default=None, allow_null=True)


class SecretOut(serializers.Serializer):
    id = serializers.CharField(source="public_id")
    name = serializers.CharField()
    project = serializers.CharField(source="project.slug", default=None, allow_null=True)
    created = serializers.DateTimeField(source="created_at")
    updated = serializers.DateTimeField(source="updated_at")


class SecretIn(Strict):
    name = serializers.CharField(max_length=120)
    value = serializers.CharField(max_length=65_536, trim_whitespace=False)
    project = serializers.CharField(max_length=63, default=None, allow_null=True)


class AuditOut(serializers.ModelSerializer):
    id = serializers.CharField(source="public_id")

    class Meta:
        model = AuditEvent
        fields = ["id", "at", "actor", "deed", "target", "address", "data"]


class MeOut(serializers.Serializer):
    id = serializers.CharField()
    email = serializers.EmailField()
    name = serializers.CharField()
    operator = serializers.BooleanField()
    key = serializers.CharField(allow_null=True)
    organisation = OrganisationOut(allow_null=True)
    role = serializers.CharField(allow_null=True)
    deeds = serializers.ListField(child=serializers.CharField())
    project = serializers.CharField(allow_null=True)
    organisations = serializers.ListField(child=serializers.CharField())
