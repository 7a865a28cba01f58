"""/api/v1: the REST of each business under one roof. Each brings `<business>.api.urls.urlpatterns`."""

from django.urls import URLPattern, URLResolver, include, path
from drf_spectacular.views import SpectacularJSONAPIView

PARTS = ("portal.accounts.api.urls", "marketplace.api.urls", "scheduling.api.urls", "billing.api.urls")

urlpatterns: list[URLPattern | URLResolver] = [
    path(
        "openapi.json", SpectacularJSONAPIView.as_view(permission_classes=[], authentication_classes=[]), name="openapi"
    ),
    *[path("", include(part)) for part in PARTS],
]
