"""/jobs/{id}/checkpoints: what running attempts have stored of their state."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.permissions import Needs
from portal.api.pagination import CursorPage
from portal.api.schema import paged
from scheduling.models import Checkpoint
from scheduling.selectors import jobs as selectors
from scheduling.selectors import stored


class CheckpointOut(serializers.Serializer):
    id = serializers.CharField()
    task = serializers.CharField()
    attempt = serializers.CharField()
    fence = serializers.IntegerField()
    size_bytes = serializers.IntegerField()
    sha256 = serializers.CharField()
    region = serializers.CharField(help_text="Where it was taken.")
    taken_at = serializers.DateTimeField(help_text="When the agent began to read it: work since then is not in it.")
    completed_at = serializers.DateTimeField()


def shown(row: Checkpoint) -> dict[str, Any]:
    """One checkpoint as it is sent."""
    return {
        "id": row.public_id,
        "task": row.task.public_id,
        "attempt": row.attempt.public_id,
        "fence": row.fence,
        "size_bytes": row.size_bytes,
        "sha256": row.sha256,
        "region": row.region,
        "taken_at": row.taken_at,
        "completed_at": row.completed_at,
    }


class JobCheckpoints(APIView):
    """The newest `checkpoint.keep` per task; deleted a day after the job has ended."""

    permission_classes = [Needs("logs.read")]

    @extend_schema(responses=paged(CheckpointOut), operation_id="jobs_checkpoints")
    def get(self, request: Any, public_id: str) -> Response:
        job = selectors.one(request.actor.home(), public_id)
        return CursorPage.answer(request, stored.checkpoints_of(job), shown)
