"""Addresses of accounts below /api/v1/."""

from django.urls import path, re_path

from portal.accounts.api import errors, keys, organisations, webhooks

urlpatterns = [
    path("me", organisations.Me.as_view()),
    path("organisations", organisations.Organisations.as_view()),
    re_path(
        r"^organisations/(?P<slug>[a-z0-9-]+):(?P<deed>suspend|resume|verify|unverify)$",
        organisations.OrganisationDeed.as_view(),
    ),
    path("organisations/<slug:slug>", organisations.Organisation.as_view()),
    path("projects", organisations.Projects.as_view()),
    path("projects/<slug:slug>", organisations.Project.as_view()),
    path("members", organisations.Members.as_view()),
    path("members/<str:user>", organisations.Member.as_view()),
    path("invitations", organisations.Invitations.as_view()),
    path("invitations:accept", organisations.AcceptInvitation.as_view()),
    path("api-keys", keys.ApiKeys.as_view()),
    path("api-keys/<str:public_id>", keys.OneKey.as_view()),
    path("secrets", keys.Secrets.as_view()),
    path("secrets/<str:public_id>", keys.OneSecret.as_view()),
    path("webhooks", webhooks.Webhooks.as_view()),
    re_path(r"^webhooks/(?P<public_id>[A-Za-z0-9_]{1,40})$", webhooks.OneWebhook.as_view()),
    re_path(r"^webhooks/(?P<public_id>[A-Za-z0-9_]{1,40}):rotate$", webhooks.RotateWebhook.as_view()),
    re_path(r"^webhooks/(?P<public_id>[A-Za-z0-9_]{1,40}):test$", webhooks.TestWebhook.as_view()),
    re_path(r"^webhooks/(?P<public_id>[A-Za-z0-9_]{1,40})/deliveries$", webhooks.Deliveries.as_view()),
    re_path(r"^webhook-deliveries/(?P<public_id>[A-Za-z0-9_]{1,40}):resend$", webhooks.ResendDelivery.as_view()),
    path("audit-events", keys.AuditEvents.as_view()),
    path("errors", errors.Errors.as_view()),
    path("errors/<str:code>", errors.OneError.as_view()),
]
