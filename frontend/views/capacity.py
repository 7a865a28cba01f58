"""The live capacity map: what regions and zones have free now."""

from django.http import HttpResponse

from frontend.doors import PageRequest, page, show
from frontend.presenters import capacity as present
from portal.accounts.permissions import Deed, may
from scheduling.selectors import capacity


@page("work.read")
def index(request: PageRequest) -> HttpResponse:
    context = {"map": present.page(capacity.everything()), "may_run": may(request.actor, Deed.JOBS_RUN)}
    return show(request, "capacity/index", context)
