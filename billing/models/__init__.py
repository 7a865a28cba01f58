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
from billing.models.usage import AttemptEnding, LateChange, UsageAnomaly, UsageHour, UsageKey, UsageRecord

__all__ = [
    "NO_LANGUAGE", "Account", "AttemptEnding", "BillingPeriod", "DocumentCounter", "DocumentFormat", "Entry", "Hold", "Invoice", "InvoiceDocument",
    "InvoiceLine", "LateChange", "LineRecord", "TaxLine", "Txn", "UsageAnomaly", "UsageHour", "UsageKey", "UsageRecord",
]  # fmt: skip
