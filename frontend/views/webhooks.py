"""Settings: where the organisation is told what happens, and how each telling went."""

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from frontend.doors import PageRequest, page, show
from frontend.forms import accounts as shapes
from frontend.paging import page_of
from portal import clock
from portal.accounts.selectors import webhooks as selectors
from portal.accounts.services import webhooks
from portal.kit.errors import Conflict, InvalidInput


@page("members.manage")
def index(request: PageRequest) -> HttpResponse:
    home = request.actor.home()
    form = shapes.WebhookForm(request.POST if request.method == "POST" else None)
    made = _make(request, form) if request.method == "POST" and form.is_valid() else None
    context = {
        "form": shapes.WebhookForm() if made else form,
        "made": made,
        "endpoints": selectors.endpoints(home),
    }
    return show(request, "settings/webhooks", context, status=422 if form.errors else 200)


def _make(request: PageRequest, form: shapes.WebhookForm) -> webhooks.Made | None:
    try:
        made: webhooks.Made = webhooks.create(
            organisation=request.actor.home(), by=request.actor.id, now=clock.now(), **form.cleaned_data
        )
    except InvalidInput as refused:
        for finding in refused.errors:
            form.add_error(finding.path.partition("[")[0], finding.message)
        return None
    except Conflict as refused:
        form.add_error("url", refused.detail)
        return None
    return made


@page("members.manage")
def endpoint(request: PageRequest, public_id: str) -> HttpResponse:
    found = selectors.endpoint(request.actor.home(), public_id)
    made = None
    if request.method == "POST":
        if request.POST.get("do") == "rotate":
            made = webhooks.rotate(endpoint=found, by=request.actor.id, now=clock.now())
        else:
            return _act(request, found)
    deliveries, older = page_of(request, selectors.deliveries(found))
    context = {"endpoint": found, "made": made, "deliveries": deliveries, "older": older}
    return show(request, "settings/webhook", context)


def _act(request: PageRequest, found: Any) -> HttpResponse:
    deed, by = request.POST.get("do", ""), {"by": request.actor.id, "now": clock.now()}
    if deed == "delete":
        webhooks.delete(endpoint=found, **by)
        messages.success(request, _("The webhook is deleted."))
        return redirect("console:webhooks")
    if deed == "test":
        webhooks.test(endpoint=found, **by)
        messages.success(request, _("A test event is on its way."))
    elif deed in ("enable", "disable"):
        webhooks.change(endpoint=found, enabled=deed == "enable", **by)
        messages.success(request, _("The webhook is on.") if deed == "enable" else _("The webhook is off."))
    elif deed == "resend":
        delivery = selectors.delivery(request.actor.home(), request.POST.get("delivery", ""))
        webhooks.resend(delivery=delivery, **by)
        messages.success(request, _("It is sent again."))
    return redirect("console:webhook", found.public_id)
