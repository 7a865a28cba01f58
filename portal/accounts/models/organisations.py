"""Legal parties in a tree, their projects and members."""

from enum import StrEnum

from django.db import models
from django.db.models import F, Q

from portal import ids
from portal.kit.money import CURRENCIES


class Role(StrEnum):
    OWNER = "owner"
    ADMIN = "admin"
    DEVELOPER = "developer"
    BILLING = "billing"
    VIEWER = "viewer"


class OrganisationState(StrEnum):
    ACTIVE = "active"
    SUSPENDED = "suspended"


def new_organisation_id() -> str:
    return ids.public_id("org")


def new_project_id() -> str:
    return ids.public_id("prj")


def new_invitation_id() -> str:
    return ids.public_id("ivt")


class Organisation(models.Model):
    """A tenant, a provider, or both. Currency and period time zone are chosen at sign-up."""

    public_id = models.CharField(max_length=32, unique=True, default=new_organisation_id, editable=False)
    slug = models.SlugField(max_length=63, unique=True)
    name = models.CharField(max_length=120)
    parent = models.ForeignKey("self", models.PROTECT, null=True, blank=True, related_name="children")
    currency = models.CharField(max_length=3)
    period_timezone = models.CharField(
        max_length=40, default="UTC"
    )  # an IANA name; a change takes effect with the next period
    credit_limit_minor = models.BigIntegerField(null=True, blank=True)  # null = IDLEWILD_CREDIT_LIMIT
    share_weight_milli = models.PositiveIntegerField(default=1_000)  # fair share of scarce capacity, set by an operator
    state = models.CharField(max_length=10, default=OrganisationState.ACTIVE)
    provider_verified = models.BooleanField(default=False)  # set by an operator
    tax_id = models.CharField(max_length=40, blank=True)
    address = models.TextField(blank=True)
    country = models.CharField(max_length=2, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(currency__in=sorted(CURRENCIES)), name="organisation_currency_known"),
            models.CheckConstraint(
                condition=Q(state__in=[s.value for s in OrganisationState]), name="organisation_state_known"
            ),
            models.CheckConstraint(condition=~Q(parent=F("id")), name="organisation_not_own_parent"),
            models.CheckConstraint(
                condition=Q(credit_limit_minor=None) | Q(credit_limit_minor__gte=0),
                name="organisation_limit_not_negative",
            ),
            models.CheckConstraint(
                condition=Q(share_weight_milli__gte=1, share_weight_milli__lte=1_000_000),
                name="organisation_weight_within_bounds",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Project(models.Model):
    """Part of an organisation with bill lines of its own; split bills group projects by `department`."""

    public_id = models.CharField(max_length=32, unique=True, default=new_project_id, editable=False)
    organisation = models.ForeignKey(Organisation, models.PROTECT, related_name="projects")
    slug = models.SlugField(max_length=63)
    name = models.CharField(max_length=120)
    department = models.CharField(max_length=120, blank=True)
    archived_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["organisation", "slug"], name="project_slug_once_per_organisation")
        ]

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """A person in an organisation, with one role."""

    user = models.ForeignKey("accounts.User", models.CASCADE, related_name="memberships")
    organisation = models.ForeignKey(Organisation, models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "organisation"], name="membership_once"),
            models.CheckConstraint(condition=Q(role__in=[r.value for r in Role]), name="membership_role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user} {self.role} of {self.organisation}"


class Invitation(models.Model):
    """An invitation to join, by a token that is shown or mailed once; only its digest is stored."""

    public_id = models.CharField(max_length=32, unique=True, default=new_invitation_id, editable=False)
    organisation = models.ForeignKey(Organisation, models.CASCADE, related_name="invitations")
    email = models.EmailField()
    role = models.CharField(max_length=10)
    token_hash = models.CharField(max_length=64, unique=True)
    created_by = models.CharField(max_length=80)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(role__in=[r.value for r in Role]), name="invitation_role_known")
        ]

    def __str__(self) -> str:
        return f"{self.email} to {self.organisation}"
