from billing.models.allocation import AllocationRule
from billing.models.bank import BankStatement, BankTransfer
from billing.models.budgets import Budget, BudgetAlert
from billing.models.credit_notes import CreditNote, CreditNoteLine
from billing.models.fapiao import FapiaoRequest
from billing.models.grants import CreditGrant, CreditUse, HourGrant
from billing.models.holds import Hold
from billing.models.imports import UsageImport
from billing.models.invoices import (
    NO_LANGUAGE,
    DocumentCounter,
    DocumentFormat,
    Invoice,
    InvoiceDocument,
    InvoiceLine,
    LineRecord,
    TaxLine,
)
from billing.models.ledger import Account, Entry, Txn
from billing.models.payments import (
    CallState,
    Dispute,
    DisputeState,
    HostedPage,
    PageKind,
    PageState,
    Payment,
    RailCall,
    RailCustomer,
    Refund,
    RefundState,
)
from billing.models.payouts import Payout, PayoutPart, ProviderAccount, Reversal
from billing.models.periods import BillingPeriod
from billing.models.rates import ExchangeRate
from billing.models.reminders import Reminder
from billing.models.usage import AttemptEnding, LateChange, UsageAnomaly, UsageHour, UsageKey, UsageRecord
from billing.models.wallets import Terms
from billing.models.webhooks import InboxState, Reconciliation, WebhookInbox

__all__ = [
    "NO_LANGUAGE",
    "Account",
    "AllocationRule",
    "AttemptEnding",
    "BankStatement",
    "BankTransfer",
    "BillingPeriod",
    "Budget",
    "BudgetAlert",
    "CallState",
    "CreditGrant",
    "CreditNote",
    "CreditNoteLine",
    "CreditUse",
    "Dispute",
    "DisputeState",
    "DocumentCounter",
    "DocumentFormat",
    "Entry",
    "ExchangeRate",
    "FapiaoRequest",
    "Hold",
    "HostedPage",
    "HourGrant",
    "InboxState",
    "Invoice",
    "InvoiceDocument",
    "InvoiceLine",
    "LateChange",
    "LineRecord",
    "PageKind",
    "PageState",
    "Payment",
    "Payout",
    "PayoutPart",
    "ProviderAccount",
    "RailCall",
    "RailCustomer",
    "Reconciliation",
    "Refund",
    "RefundState",
    "Reminder",
    "Reversal",
    "TaxLine",
    "Terms",
    "Txn",
    "UsageAnomaly",
    "UsageHour",
    "UsageImport",
    "UsageKey",
    "UsageRecord",
    "WebhookInbox",
]
