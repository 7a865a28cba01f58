"""The pages, by what people come for. Names are `console:<page>`."""

from django.urls import path, register_converter
from django.urls.converters import StringConverter
from django.views.decorators.http import require_POST

from frontend.views import (
    accounts,
    bank,
    budgets,
    capacity,
    earnings,
    find,
    home,
    invoices,
    job_new,
    jobs,
    ledger_desk,
    market,
    operator,
    payments,
    provider,
    public,
    reconcile,
    usage,
    wallet,
    webhooks,
)

app_name = "console"


class DocumentKind(StringConverter):
    """The formats an invoice comes in."""

    regex = "pdf|csv|xlsx|json|focus|xml"


register_converter(DocumentKind, "documents")

urlpatterns = [
    path("", public.landing, name="landing"),
    path("home", home.index, name="home"),
    path("find", find.index, name="find"),
    path("preferences", public.preferences, name="preferences"),
    path("switch", public.switch, name="switch"),
    path("invitations/<str:token>", accounts.invitation, name="invitation"),
    path("capacity", capacity.index, name="capacity"),
    path("market", market.index, name="market"),
    path("jobs", jobs.job_list, name="jobs"),
    path("jobs/new", job_new.new, name="job_new"),
    path("jobs/<str:public_id>", jobs.job, name="job"),
    path("jobs/<str:public_id>/cancel", jobs.cancel, name="job_cancel"),
    path("jobs/<str:public_id>/retry", jobs.retry, name="job_retry"),
    path("jobs/<str:public_id>/log", jobs.log, name="job_log"),
    path("jobs/<str:public_id>/outputs/<str:artefact_id>", jobs.output, name="job_output"),
    path("usage", usage.index, name="usage"),
    path("invoices", invoices.invoice_list, name="invoices"),
    path("invoices/<str:public_id>", invoices.invoice, name="invoice"),
    path("invoices/<str:public_id>/verify", require_POST(invoices.verify), name="invoice_verify"),
    path("invoices/<str:public_id>/lines/<int:position>", invoices.line, name="invoice_line"),
    path("invoices/<str:public_id>/document.<documents:kind>", invoices.document, name="invoice_document"),
    path("invoices/<str:public_id>/pay", require_POST(payments.pay), name="invoice_pay"),
    path("payments", payments.payment_list, name="payments"),
    path("payments/top-up", require_POST(payments.top_up), name="payment_top_up"),
    path("payments/cards", require_POST(payments.cards), name="payment_cards"),
    path("payments/open/<str:public_id>", payments.hosted_page, name="hosted_page"),
    path("payments/<str:public_id>", payments.payment, name="payment"),
    path("provide/earnings", earnings.index, name="earnings"),
    path("provide/payouts", earnings.payouts, name="payouts"),
    path("provide/payouts/account", require_POST(earnings.onboard), name="payout_onboard"),
    path("provide/payouts/<str:public_id>", earnings.payout, name="payout"),
    path("operate/rail", reconcile.index, name="rail"),
    path("wallet", wallet.index, name="wallet"),
    path("budgets", budgets.index, name="budgets"),
    path("operate/rail/refund", require_POST(reconcile.give_back), name="rail_refund"),
    path("projects", accounts.project_list, name="projects"),
    path("projects/<str:slug>", accounts.project, name="project"),
    path("provide/add", provider.onboarding, name="onboarding"),
    path("provide/add/<str:public_id>", provider.onboarding_node, name="onboarding_node"),
    path("provide/nodes", provider.node_list, name="nodes"),
    path("provide/nodes/<str:public_id>", provider.node, name="node"),
    path("provide/nodes/<str:public_id>/publish", provider.offer_new, name="offer_new"),
    path("provide/offers", provider.offer_list, name="offers"),
    path("provide/offers/<str:public_id>", provider.offer, name="offer"),
    path("operate/fleet", operator.fleet, name="fleet"),
    path("operate/queue", operator.queue, name="queue"),
    path("operate/jobs", operator.all_jobs, name="all_jobs"),
    path("operate/organisations", operator.organisation_list, name="organisations"),
    path("operate/bank", bank.index, name="bank"),
    path("operate/invoices", ledger_desk.index, name="desk"),
    path("operate/audit", operator.audit_trail, name="audit"),
    path("settings/members", accounts.member_list, name="members"),
    path("settings/keys", accounts.key_list, name="keys"),
    path("settings/secrets", accounts.secret_list, name="secrets"),
    path("settings/webhooks", webhooks.index, name="webhooks"),
    path("settings/webhooks/<str:public_id>", webhooks.endpoint, name="webhook"),
    path("settings/organisation", accounts.organisation, name="organisation"),
    path("settings/profile", accounts.profile, name="profile"),
    path("organisations/new", accounts.organisation_new, name="organisation_new"),
]
