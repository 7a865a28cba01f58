"""Every door of the house, on one page.

| address | who | where |
|---|---|---|
| ``/`` and below | people | `frontend.urls` |
| ``/accounts/`` | people | allauth's pages in our templates |
| ``/api/v1/`` | programs | `portal.api_urls` |
| ``/agent/v1/`` | nodes | `scheduling.api.agent_urls` |
| ``/hooks/stripe`` | the payment rail | `billing.api.webhooks` |
| ``/ws/`` | live pages | `scheduling.consumers` |
| ``/get/`` | nodes, people | our own wheels |
| ``/healthz``, ``/readyz`` | supervisors, proxies | `portal.doors` |
| ``/admin/`` | operators, for rare repair | Django |
"""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path
from django.views.i18n import JavaScriptCatalog, set_language

from billing.api import webhooks
from portal import doors

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", doors.healthz, name="healthz"),
    path("readyz", doors.readyz, name="readyz"),
    path("get/", doors.get_index, name="get"),
    path("get/<str:name>", doors.get_wheel, name="get_wheel"),
    path("api/v1/", include("portal.api_urls")),
    path("agent/v1/", include("scheduling.api.agent_urls")),
    path("hooks/stripe", webhooks.stripe, name="hooks_stripe"),
    path("admin/", admin.site.urls),
    path("accounts/", include("allauth.urls")),
    path("language/", set_language, name="set_language"),
    path("jsi18n/", JavaScriptCatalog.as_view(packages=["frontend"]), name="jsi18n"),
    path("", include("frontend.urls")),
]

handler400 = "frontend.views.errors.bad_request"
handler403 = "frontend.views.errors.forbidden"
handler404 = "frontend.views.errors.not_found"
handler500 = "frontend.views.errors.broken"
