"""/jobs/{id}/artefacts, /artefacts: stored outputs, their bytes, and their deletion."""

from typing import Any

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response
from rest_framework.views import APIView

from portal import clock
from portal.accounts.permissions import Needs
from portal.api.pagination import CursorPage
from portal.api.schema import paged
from scheduling.models import Artefact
from scheduling.selectors import jobs as selectors
from scheduling.selectors import stored
from scheduling.services import artefacts


class ArtefactOut(serializers.Serializer):
    id = serializers.CharField()
    name = serializers.CharField()
    path = serializers.CharField(help_text="Where it stood under /job.")
    kind = serializers.CharField(help_text="FILE, or DIRECTORY: a tar archive.")
    job = serializers.CharField()
    task = serializers.CharField()
    attempt = serializers.CharField()
    size_bytes = serializers.IntegerField()
    sha256 = serializers.CharField()
    region = serializers.CharField()
    state = serializers.CharField()
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()


def shown(row: Artefact) -> dict[str, Any]:
    """One artefact as it is sent."""
    return {
        "id": row.public_id,
        "name": row.name,
        "path": row.path,
        "kind": row.kind,
        "job": row.job.public_id,
        "task": row.task.public_id,
        "attempt": row.attempt.public_id,
        "size_bytes": row.size_bytes,
        "sha256": row.sha256,
        "region": row.region,
        "state": row.state,
        "created_at": row.created_at,
        "expires_at": row.expires_at,
    }


class JobArtefacts(APIView):
    permission_classes = [Needs("logs.read")]

    @extend_schema(responses=paged(ArtefactOut), operation_id="jobs_artefacts")
    def get(self, request: Any, public_id: str) -> Response:
        job = selectors.one(request.actor.home(), public_id)
        return CursorPage.answer(request, stored.artefacts_of(job), shown)


class Artefacts(APIView):
    permission_classes = [Needs("logs.read")]

    @extend_schema(responses=paged(ArtefactOut), operation_id="artefacts_list")
    def get(self, request: Any) -> Response:
        return CursorPage.answer(request, stored.artefacts(request.actor.home()), shown)


class OneArtefact(APIView):
    permission_classes = [Needs(get="logs.read", delete="jobs.run")]

    @extend_schema(responses=ArtefactOut, operation_id="artefacts_get")
    def get(self, request: Any, public_id: str) -> Response:
        return Response(shown(stored.artefact(request.actor.home(), public_id)))

    @extend_schema(responses=ArtefactOut, operation_id="artefacts_delete")
    def delete(self, request: Any, public_id: str) -> Response:
        row = stored.artefact(request.actor.home(), public_id)
        artefacts.delete(artefact=row, by=request.actor.id, now=clock.now())
        return Response(shown(row))


class Content(APIView):
    permission_classes = [Needs("logs.read")]

    @extend_schema(responses={(200, "application/octet-stream"): OpenApiTypes.BINARY}, operation_id="artefacts_content")
    def get(self, request: Any, public_id: str) -> StreamingHttpResponse:
        row = stored.artefact(request.actor.home(), public_id)
        name = row.path.rsplit("/", 1)[-1] or row.name
        plain = name if name.isascii() and '"' not in name and name.isprintable() else row.name
        return StreamingHttpResponse(
            artefacts.content(artefact=row),
            content_type="application/octet-stream",
            headers={
                "Content-Length": str(row.size_bytes),
                "Content-Disposition": f'attachment; filename="{plain}"',
                "Cache-Control": "no-store",
            },
        )
