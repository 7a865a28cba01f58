from portal.accounts.models.keys import ApiKey, Secret
from portal.accounts.models.organisations import Invitation, Membership, Organisation, OrganisationState, Project, Role
from portal.accounts.models.users import User
from portal.accounts.models.webhooks import WebhookDelivery, WebhookEndpoint, WebhookEvent

__all__ = [
    "ApiKey",
    "Invitation",
    "Membership",
    "Organisation",
    "OrganisationState",
    "Project",
    "Role",
    "Secret",
    "User",
    "WebhookDelivery",
    "WebhookEndpoint",
    "WebhookEvent",
]
