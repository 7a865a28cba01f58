"""Addresses of billing below /api/v1/."""

from django.urls import path, re_path

from billing.api import provider, tenant

urlpatterns = [
    path("usage", tenant.Usage.as_view()),
    path("usage/records", tenant.Records.as_view()),
    path("invoices", tenant.Invoices.as_view()),
    re_path(
        r"^invoices/(?P<invoice>[A-Za-z0-9_-]+)\.(?P<kind>pdf|csv|xlsx|json|focus|xml)$", tenant.Document.as_view()
    ),
    path("invoices/<str:invoice>", tenant.Invoice.as_view()),
    path("invoices/<str:invoice>/lines/<int:position>/records", tenant.LineRecords.as_view()),
    path("invoices/<str:invoice>/verification", tenant.Verification.as_view()),
    path("balance", tenant.Balance.as_view()),
    path("earnings", provider.Earnings.as_view()),
]
