"""/jobs/{id}/logs: a piece of one stream of one attempt, from a byte offset on."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.permissions import Needs
from portal.api.serializers import Strict, queried
from scheduling.selectors import jobs as selectors
from scheduling.selectors import stored
from scheduling.services import logs


class LogFilter(Strict):
    task = serializers.CharField(required=False, default="", max_length=80, help_text="Id or name; default: any.")
    attempt = serializers.RegexField(
        r"^([0-9]{1,6}|att_[0-9A-Z]{26})?$", required=False, default="", help_text="Id or number; default: the newest."
    )
    stream = serializers.ChoiceField(list(logs.STREAMS), required=False, default="stdout")
    offset = serializers.IntegerField(required=False, default=0, min_value=0, max_value=logs.STREAM)
    most = serializers.IntegerField(
        required=False, default=logs.READ_MOST, min_value=16, max_value=logs.READ_MOST, help_text="Bytes at most."
    )


class LogOut(serializers.Serializer):
    attempt = serializers.CharField(allow_null=True, help_text="null: nothing has been placed yet.")
    stream = serializers.CharField()
    offset = serializers.IntegerField()
    next_offset = serializers.IntegerField(help_text="Ask on from here.")
    total = serializers.IntegerField(help_text="Bytes stored so far.")
    complete = serializers.BooleanField(help_text="The attempt has ended: nothing follows after `total`.")
    text = serializers.CharField(
        allow_blank=True, help_text="As printed, colours included; bytes that are no UTF-8 as U+FFFD."
    )


class Logs(APIView):
    """Kept 90 days, whether the node is still there or not."""

    permission_classes = [Needs("logs.read")]

    @extend_schema(parameters=[LogFilter], responses=LogOut, operation_id="jobs_logs")
    def get(self, request: Any, public_id: str) -> Response:
        wanted = queried(LogFilter, request)
        job = selectors.one(request.actor.home(), public_id)
        attempt = stored.attempt_of(job, task=wanted["task"], attempt=wanted["attempt"])
        if attempt is None:
            nothing = {"offset": 0, "next_offset": 0, "total": 0, "text": ""}
            return Response(
                {"attempt": None, "stream": wanted["stream"], **nothing, "complete": job.ended_at is not None}
            )
        piece = logs.read(attempt=attempt, stream=wanted["stream"], offset=wanted["offset"], most=wanted["most"])
        return Response(
            {
                "attempt": attempt.public_id,
                "stream": wanted["stream"],
                "offset": piece.offset,
                "next_offset": piece.next_offset,
                "total": piece.total,
                "complete": piece.complete,
                "text": piece.data.decode(errors="replace"),
            },
            headers={"Cache-Control": "no-store"},
        )
