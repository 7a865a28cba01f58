"""What it cost, who owes whom."""

from django.apps import AppConfig


class BillingConfig(AppConfig):
    name = "billing"
    label = "billing"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from billing.gateways import pdf
        from billing.services import documents
        from portal.outbox.registry import handler

        pdf.font_folder()  # a missing font is an error at the start, not a blank page
        handler("invoice.pdf")(documents.render_promised)
