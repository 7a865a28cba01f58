"""The door of the rail's webhooks: signed bodies, nothing else; no session, no key."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from billing.services import webhooks
from portal import clock
from portal.kit.errors import IdlewildError


@csrf_exempt
@require_POST
def stripe(request: HttpRequest) -> HttpResponse:
    try:
        row = webhooks.receive(
            body=request.body, signature=request.headers.get("Stripe-Signature", ""), now=clock.now()
        )
    except IdlewildError as refused:
        return JsonResponse({"code": refused.code, "detail": refused.detail}, status=refused.status)
    return JsonResponse({"received": row.event_id, "state": row.state})
