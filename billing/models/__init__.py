from billing.models.bank import BankStatement, BankTransfer
from billing.models.budgets import Budget, BudgetAlert
from billing.models.credit_notes import CreditNote, CreditNoteLine
from billing.models.grants import CreditGrant, CreditUse, HourGrant
from billing.models.holds import Hold
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
from billing.models.periods import BillingPeriod
from billing.models.rates import ExchangeRate
from billing.models.reminders import Reminder
from billing.models.usage import AttemptEnding, LateChange, UsageAnomaly, UsageHour, UsageKey, UsageRecord
from billing.models.wallets import Terms

__all__ = [
    "NO_LANGUAGE", "Account", "AttemptEnding", "BankStatement", "BankTransfer", "BillingPeriod", "Budget", "BudgetAlert", "CreditGrant", "CreditNote",
    "CreditNoteLine", "CreditUse", "DocumentCounter", "DocumentFormat", "Entry", "ExchangeRate", "Hold", "HourGrant", "Invoice",
    "InvoiceDocument", "InvoiceLine", "LateChange", "LineRecord", "Reminder", "TaxLine", "Terms", "Txn", "UsageAnomaly", "UsageHour",
    "UsageKey", "UsageRecord",
]  # fmt: skip
