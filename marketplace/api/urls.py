"""Addresses of the market below /api/v1/."""

from django.urls import path, re_path

from marketplace.api import catalog, provider

_ID = r"(?P<public_id>[A-Za-z0-9_.-]{1,80})"

urlpatterns = [
    path("regions", catalog.Regions.as_view()),
    path("regions/<slug:slug>", catalog.Region.as_view()),
    path("zones", catalog.Zones.as_view()),
    path("offers", catalog.Offers.as_view()),
    re_path(rf"^offers/{_ID}:reprice$", catalog.Reprice.as_view()),
    re_path(rf"^offers/{_ID}:(?P<deed>pause|resume|withdraw)$", catalog.OfferDeed.as_view()),
    re_path(rf"^offers/{_ID}$", catalog.OneOffer.as_view()),
    path("nodes", provider.Nodes.as_view()),
    path("nodes:invite", provider.Invite.as_view()),
    re_path(rf"^nodes/{_ID}:drain$", provider.Drain.as_view()),
    re_path(rf"^nodes/{_ID}:(?P<deed>undrain|retire|self-test|fingerprint)$", provider.NodeDeed.as_view()),
    re_path(rf"^nodes/{_ID}/fingerprints$", catalog.Fingerprints.as_view()),
    re_path(rf"^nodes/{_ID}$", provider.OneNode.as_view()),
]
