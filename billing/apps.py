"""What it cost, who owes whom."""

from django.apps import AppConfig


class BillingConfig(AppConfig):
    name = "billing"
    label = "billing"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from billing.gateways import pdf
        from billing.services import documents, payments, payouts, provider_accounts, reconcile, refunds
        from portal.outbox.registry import handler

        pdf.font_folder()  # a missing font is an error at the start, not a blank page
        handler("invoice.pdf")(documents.render_promised)
        handler("stripe.collect")(payments.collect)
        handler("stripe.look")(payments.perform_look)
        handler("stripe.close")(payments.perform_close)
        handler("stripe.customer")(payments.perform_customer)
        handler("stripe.checkout")(payments.perform_checkout)
        handler("stripe.charge")(payments.perform_charge)
        handler("stripe.cards")(payments.perform_cards)
        handler("stripe.refund")(refunds.perform_refund)
        handler("stripe.account")(provider_accounts.perform_account)
        handler("stripe.account_link")(provider_accounts.perform_link)
        handler("stripe.account_look")(provider_accounts.perform_look)
        handler("stripe.transfer")(payouts.perform_transfer)
        handler("stripe.reversal")(payouts.perform_reversal)
        handler("stripe.reconcile")(reconcile.perform_again)
