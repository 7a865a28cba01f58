"""Addresses of billing below /api/v1/."""

from django.urls import path, re_path

from billing.api import imports, operator, payments, provider, statements, tenant, wallet

urlpatterns = [
    path("usage", tenant.Usage.as_view()),
    path("usage/records", tenant.Records.as_view()),
    path("usage/imports", imports.Imports.as_view()),
    path("invoices", tenant.Invoices.as_view()),
    re_path(
        r"^invoices/(?P<invoice>[A-Za-z0-9_-]+)\.(?P<kind>pdf|csv|xlsx|json|focus|xml)$", tenant.Document.as_view()
    ),
    path("invoices/<str:invoice>", tenant.Invoice.as_view()),
    path("invoices/<str:invoice>/lines/<int:position>/records", tenant.LineRecords.as_view()),
    path("invoices/<str:invoice>/verification", tenant.Verification.as_view()),
    path("invoices/<str:invoice>/receipt.pdf", statements.Receipt.as_view()),
    path("credit-notes/<str:public_id>.pdf", statements.CreditNotePdf.as_view()),
    path("invoices/<str:invoice>/fapiao", statements.InvoiceFapiao.as_view()),
    re_path(
        r"^statements/(?P<month>\d{4}-\d\d)/(?P<kind>monthly|split)\.(?P<format_>csv|xlsx)$",
        statements.Statement.as_view(),
    ),
    re_path(r"^statements/(?P<month>\d{4}-\d\d)/split$", statements.Split.as_view()),
    path("allocation-rules", statements.Rules.as_view()),
    path("allocation-rules/<str:public_id>/end", statements.EndedRule.as_view()),
    path("operator/fapiao.csv", statements.OperatorFapiao.as_view()),
    re_path(r"^operator/fapiao/(?P<public_id>\w+)/(?P<deed>issued|refused|reversed)$", statements.FapiaoDeed.as_view()),
    path("balance", tenant.Balance.as_view()),
    path("earnings", provider.Earnings.as_view()),
    path("wallet", wallet.Wallet.as_view()),
    path("wallet/entries", wallet.WalletEntries.as_view()),
    path("budgets", wallet.Budgets.as_view()),
    path("budgets/<str:public_id>", wallet.OneBudget.as_view()),
    path("credit-notes", wallet.CreditNotes.as_view()),
    path("credit-notes/<str:public_id>.json", wallet.CreditNoteDocument.as_view()),
    path("credit-notes/<str:public_id>", wallet.OneCreditNote.as_view()),
    path("hour-grants", wallet.HourGrants.as_view()),
    path("exchange-rates", wallet.ExchangeRates.as_view()),
    path("operator/exchange-rates", operator.Rates.as_view()),
    path("operator/bank-statements", operator.Statements.as_view()),
    path("operator/bank-transfers", operator.Transfers.as_view()),
    path("operator/bank-transfers/<str:public_id>/assign", operator.Assign.as_view()),
    path("operator/bank-transfers/<str:public_id>/return", operator.SendBack.as_view()),
    path("operator/invoices/<str:public_id>/credit-notes", operator.Credit.as_view()),
    path("operator/invoices/<str:public_id>/void", operator.Void.as_view()),
    path("operator/invoices/<str:public_id>/write-off", operator.WriteOff.as_view()),
    path("operator/organisations/<str:slug>/terms", operator.Terms.as_view()),
    path("operator/organisations/<str:slug>/credits", operator.Credits.as_view()),
    path("payments", payments.Payments.as_view()),
    path("payments:setup", payments.Setup.as_view()),
    path("payments/pages/<str:public_id>", payments.HostedPage.as_view()),
    path("payments/<str:public_id>", payments.Payment.as_view()),
    path("payouts", payments.Payouts.as_view()),
    path("payouts/account", payments.PayoutAccount.as_view()),
    path("payouts/<str:public_id>", payments.Payout.as_view()),
]
