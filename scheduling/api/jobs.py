"""/jobs and everything below one."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response
from rest_framework.views import APIView

from billing.selectors import usage
from portal import clock
from portal.accounts.permissions import Needs
from portal.api.idempotency import idempotent
from portal.api.pagination import CursorPage
from portal.api.schema import paged
from portal.api.serializers import Empty, demand_match, parsed, queried, tagged
from scheduling.api import serializers as shapes
from scheduling.api import shown
from scheduling.api.parsers import ExactJSONParser
from scheduling.selectors import decisions, explain
from scheduling.selectors import jobs as selectors
from scheduling.services import jobs


class Jobs(APIView):
    permission_classes = [Needs(get="work.read", post="jobs.run")]
    parser_classes = [ExactJSONParser]
    rate = "submit"

    @extend_schema(parameters=[shapes.JobFilter], responses=paged(shapes.JobOut), operation_id="jobs_list")
    def get(self, request: Any) -> Response:
        wanted = queried(shapes.JobFilter, request)
        label = wanted["label"].partition("=")
        rows = selectors.for_organisation(
            request.actor.home(),
            states=wanted["state"],
            project=wanted["project"],
            labels=[(label[0], label[2])] if label[0] else [],
            since=wanted["since"],
            text=wanted["q"],
        )
        return CursorPage.answer(request, rows, lambda row: shown.job(row, spec=False))

    @extend_schema(request=shapes.JobIn, responses={201: shapes.JobOut}, operation_id="jobs_submit")
    @idempotent
    def post(self, request: Any) -> Response:
        actor = request.actor
        values = parsed(shapes.JobIn, request)
        home = actor.home()
        job = jobs.submit(
            tenant=home,
            project=actor.project,
            spec=values["spec"],
            by=actor.id,
            quote=selectors.quote(home, values["quote"]) if values["quote"] else None,
            point=values["point"],
            now=clock.now(),
        )
        return Response(
            shown.job(selectors.one(home, job.public_id)),
            status=201,
            headers={"Location": f"/api/v1/jobs/{job.public_id}"},
        )


class OneJob(APIView):
    permission_classes = [Needs(get="work.read", patch="jobs.run")]
    parser_classes = [ExactJSONParser]

    @extend_schema(responses=shapes.JobOut, operation_id="jobs_get")
    def get(self, request: Any, public_id: str) -> Response:
        return tagged(shown.job(selectors.one(request.actor.home(), public_id)))

    @extend_schema(request=shapes.JobChange, responses=shapes.JobOut, operation_id="jobs_change")
    def patch(self, request: Any, public_id: str) -> Response:
        """Priority, labels, cap and budget, for attempts to come."""
        home = request.actor.home()
        job = selectors.one(home, public_id)
        demand_match(request, shown.job(job))
        values = parsed(shapes.JobChange, request)
        jobs.change(job=job, values=jobs.as_columns(job, values), by=request.actor.id, now=clock.now())
        return tagged(shown.job(selectors.one(home, public_id)))


class Cancel(APIView):
    permission_classes = [Needs("jobs.run")]

    @extend_schema(request=Empty, responses={202: shapes.JobOut}, operation_id="jobs_cancel")
    def post(self, request: Any, public_id: str) -> Response:
        """Ends what has not ended. Again changes nothing."""
        parsed(Empty, request)
        home = request.actor.home()
        jobs.cancel(job=selectors.one(home, public_id), by=request.actor.id, now=clock.now())
        return Response(shown.job(selectors.one(home, public_id)), status=202)


class Retry(APIView):
    permission_classes = [Needs("jobs.run")]

    @extend_schema(request=Empty, responses={202: shapes.JobOut}, operation_id="jobs_retry")
    @idempotent
    def post(self, request: Any, public_id: str) -> Response:
        """The failed tasks again, under the same job."""
        parsed(Empty, request)
        home = request.actor.home()
        jobs.retry(job=selectors.one(home, public_id), by=request.actor.id, now=clock.now())
        return Response(shown.job(selectors.one(home, public_id)), status=202)


class Tasks(APIView):
    permission_classes = [Needs("work.read")]

    @extend_schema(responses=paged(shapes.TaskOut), operation_id="jobs_tasks")
    def get(self, request: Any, public_id: str) -> Response:
        job = selectors.one(request.actor.home(), public_id)
        return CursorPage.answer(request, selectors.tasks(job), shown.task)


class Attempts(APIView):
    permission_classes = [Needs("work.read")]

    @extend_schema(responses=paged(shapes.AttemptOut), operation_id="jobs_attempts")
    def get(self, request: Any, public_id: str) -> Response:
        job = selectors.one(request.actor.home(), public_id)
        return CursorPage.answer(request, selectors.attempts(job), shown.attempt)


class Events(APIView):
    permission_classes = [Needs("work.read")]

    @extend_schema(parameters=[shapes.EventFilter], responses=paged(shapes.EventOut), operation_id="jobs_events")
    def get(self, request: Any, public_id: str) -> Response:
        """Newest first; `since`: only those with a greater sequence."""
        job = selectors.one(request.actor.home(), public_id)
        since = queried(shapes.EventFilter, request)["since"]
        return CursorPage.answer(request, selectors.events(job, since=since), shown.event)


class Cost(APIView):
    permission_classes = [Needs("costs.read")]

    @extend_schema(responses=shapes.JobCostOut, operation_id="jobs_cost")
    def get(self, request: Any, public_id: str) -> Response:
        """The coming invoice lines of the job, lines of 0 included."""
        job = selectors.one(request.actor.home(), public_id)
        budget = shown.job(job, spec=False)["budget"]
        return Response({**usage.job_cost(job.public_id).wire(), "budget": budget})


class Decisions(APIView):
    permission_classes = [Needs("work.read")]

    @extend_schema(responses=paged(shapes.DecisionOut), operation_id="jobs_decisions")
    def get(self, request: Any, public_id: str) -> Response:
        job = selectors.one(request.actor.home(), public_id)
        return CursorPage.answer(request, decisions.of_job(job), decisions.shown)


class Explain(APIView):
    permission_classes = [Needs("work.read")]

    @extend_schema(responses=shapes.ExplainOut, operation_id="jobs_explain")
    def get(self, request: Any, public_id: str) -> Response:
        """Why it waits, why it is where it is, why it ended."""
        job = selectors.one(request.actor.home(), public_id)
        return Response(explain.job(job, now=clock.now()))
