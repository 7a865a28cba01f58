"""Keys of programs, and tenants' secrets (encrypted by ``portal.vault``, never returned)."""

from django.contrib.postgres.fields import ArrayField
from django.db import models

from portal import ids
from portal.accounts.models.organisations import Membership, Organisation, Project


def new_key_id() -> str:
    return ids.public_id("key")


def new_secret_id() -> str:
    return ids.public_id("sec")


class ApiKey(models.Model):
    """A bearer key ``idw_<prefix>_<secret>``; scopes are deeds, at most its maker's; it dies with the membership."""

    public_id = models.CharField(max_length=32, unique=True, default=new_key_id, editable=False)
    membership = models.ForeignKey(Membership, models.CASCADE, related_name="keys")
    project = models.ForeignKey(Project, models.SET_NULL, null=True, blank=True)  # default project of what it submits
    name = models.CharField(max_length=80)
    prefix = models.CharField(max_length=16, unique=True)
    secret_hash = models.CharField(max_length=64)
    scopes = ArrayField(models.CharField(max_length=30))
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.name} (idw_{self.prefix}_…)"


class Secret(models.Model):
    """A named secret of an organisation, or of one project; opened only for a live fence."""

    public_id = models.CharField(max_length=32, unique=True, default=new_secret_id, editable=False)
    organisation = models.ForeignKey(Organisation, models.CASCADE, related_name="secrets")
    project = models.ForeignKey(Project, models.CASCADE, null=True, blank=True, related_name="secrets")
    name = models.CharField(max_length=120)
    sealed = models.TextField()  # of portal.vault: key id and ciphertext, bound to this organisation and name
    created_by = models.CharField(max_length=80)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["organisation", "project", "name"], nulls_distinct=False, name="secret_name_once"
            )
        ]

    def __str__(self) -> str:
        return self.name
