"""/jobs/{id}/metrics: what one attempt used, over time."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response
from rest_framework.views import APIView

from portal.accounts.permissions import Needs
from portal.api.serializers import Strict, queried
from scheduling.selectors import jobs as selectors
from scheduling.selectors import stored


class MetricFilter(Strict):
    attempt = serializers.RegexField(
        r"^([0-9]{1,6}|att_[0-9A-Z]{26})?$", required=False, default="", help_text="Id or number; default: the newest."
    )


class PointOut(serializers.Serializer):
    at_s = serializers.FloatField(help_text="Seconds since the first sample.")
    cores_milli = serializers.IntegerField(help_text="Used since the point before, in thousandths of a core.")
    memory_bytes = serializers.IntegerField()
    network_bytes_s = serializers.IntegerField(help_text="Carried both ways, per second.")


class MetricsOut(serializers.Serializer):
    attempt = serializers.CharField(allow_null=True)
    cores_milli = serializers.IntegerField(allow_null=True, help_text="What its lease gives.")
    memory_bytes = serializers.IntegerField(allow_null=True)
    points = PointOut(many=True)


class Metrics(APIView):
    """Kept for 30 days. Sampled every 10 s by the node's agent: shown only, never billed."""

    permission_classes = [Needs("logs.read")]

    @extend_schema(parameters=[MetricFilter], responses=MetricsOut, operation_id="jobs_metrics")
    def get(self, request: Any, public_id: str) -> Response:
        wanted = queried(MetricFilter, request)
        job = selectors.one(request.actor.home(), public_id)
        attempt = stored.attempt_of(job, attempt=wanted["attempt"])
        if attempt is None:
            return Response({"attempt": None, "cores_milli": None, "memory_bytes": None, "points": []})
        return Response(
            {
                "attempt": attempt.public_id,
                "cores_milli": attempt.lease.cores_milli,
                "memory_bytes": attempt.lease.memory_mib << 20,
                "points": [PointOut(point).data for point in stored.metrics_of(attempt)],
            }
        )
