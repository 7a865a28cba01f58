"""/me, /organisations, /projects, /members: who is who, and what belongs to whom."""

from typing import Any

from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response
from rest_framework.views import APIView

from portal import clock
from portal.accounts import actors
from portal.accounts.api import serializers as shapes
from portal.accounts.models import Role
from portal.accounts.permissions import Deed, Needs, OperatorOnly, demand
from portal.accounts.selectors import organisations as selectors
from portal.accounts.services import members, organisations, projects
from portal.api.idempotency import idempotent
from portal.api.pagination import CursorPage
from portal.api.schema import paged
from portal.api.serializers import Strict, demand_match, parsed, tagged
from portal.kit.errors import Forbidden


class Me(APIView):
    permission_classes = [Needs()]

    @extend_schema(responses=shapes.MeOut, operation_id="me")
    def get(self, request: Any) -> Response:
        actor = request.actor
        names = [actor.organisation.slug] if actor.key else [row.slug for row in selectors.for_user(actor.user)]
        return Response(
            {
                "id": actor.user.public_id,
                "email": actor.user.email,
                "name": actor.user.name,
                "operator": actor.is_operator,
                "key": actor.key.public_id if actor.key else None,
                "organisation": shapes.OrganisationOut(actor.organisation).data if actor.organisation else None,
                "role": actor.role.value if actor.role else None,
                "deeds": sorted(actor.deeds),
                "project": actor.project.slug if actor.project else None,
                "organisations": names,
            }
        )


class Organisations(APIView):
    permission_classes = [Needs()]

    @extend_schema(responses=paged(shapes.OrganisationOut), operation_id="organisations_list")
    def get(self, request: Any) -> Response:
        rows = selectors.everybody() if request.actor.is_operator else selectors.for_user(request.actor.user)
        if request.actor.key:
            home = request.actor.key.membership.organisation_id
            rows = rows.filter(id__in={home} | selectors.below([home]))
        return CursorPage.answer(request, rows, lambda row: shapes.OrganisationOut(row).data)

    @extend_schema(
        request=shapes.OrganisationIn, responses={201: shapes.OrganisationOut}, operation_id="organisations_create"
    )
    @idempotent
    def post(self, request: Any) -> Response:
        values = parsed(shapes.OrganisationIn, request)
        if request.actor.key:
            demand(request.actor, Deed.ORGANISATION_MANAGE)
        parent = _manageable(request.actor, values.pop("parent"))
        made = organisations.create(
            owner=request.actor.user, by=request.actor.id, parent=parent, now=clock.now(), **values
        )
        return tagged(shapes.OrganisationOut(made).data, 201)


def _manageable(actor: actors.Actor, slug: str | None) -> Any:
    """A parent must be managed by the actor too: its members will read the child's money."""
    if slug is None:
        return None
    parent = selectors.visible_to(actor, slug)
    demand(actors.of_user(actor.user, slug), Deed.ORGANISATION_MANAGE)
    return parent


class Organisation(APIView):
    permission_classes = [Needs(patch="organisation.manage")]

    @extend_schema(responses=shapes.OrganisationOut, operation_id="organisations_get")
    def get(self, request: Any, slug: str) -> Response:
        return tagged(shapes.OrganisationOut(selectors.visible_to(request.actor, slug)).data)

    @extend_schema(
        request=shapes.OrganisationChange, responses=shapes.OrganisationOut, operation_id="organisations_change"
    )
    def patch(self, request: Any, slug: str) -> Response:
        row = selectors.visible_to(request.actor, slug)
        if row != request.actor.home():
            _demand_in_person(request.actor, slug)
        values = parsed(shapes.OrganisationChange, request)
        demand_match(request, shapes.OrganisationOut(row).data)
        now, by = clock.now(), request.actor.id
        if "parent" in values:
            row = organisations.set_parent(
                organisation=row, parent=_manageable(request.actor, values.pop("parent")), by=by, now=now
            )
        if values:
            row = organisations.change(organisation=row, by=by, now=now, **values)
        return tagged(shapes.OrganisationOut(row).data)


def _demand_in_person(actor: actors.Actor, slug: str) -> None:
    """Another organisation than the request's is changed by its owner in person; a key stays in its own."""
    if actor.key is not None:
        raise Forbidden(_("An API key changes its own organisation only."))
    demand(actors.of_user(actor.user, slug), Deed.ORGANISATION_MANAGE)


class ReasonIn(Strict):
    reason = serializers.CharField(max_length=200, default="", allow_blank=True)


class OrganisationDeed(APIView):
    """An operator suspends, resumes, verifies, unverifies."""

    permission_classes = [OperatorOnly]

    @extend_schema(request=ReasonIn, responses=shapes.OrganisationOut, operation_id="organisations_deed")
    def post(self, request: Any, slug: str, deed: str) -> Response:
        row = selectors.visible_to(request.actor, slug)
        reason = parsed(ReasonIn, request)["reason"]
        by, now = request.actor.id, clock.now()
        if deed == "suspend":
            row = organisations.suspend(organisation=row, by=by, reason=reason, now=now)
        elif deed == "resume":
            row = organisations.resume(organisation=row, by=by, reason=reason, now=now)
        else:
            row = organisations.verify_provider(organisation=row, verified=deed == "verify", by=by, now=now)
        return Response(shapes.OrganisationOut(row).data)


class Projects(APIView):
    permission_classes = [Needs(get="work.read", post="projects.manage")]

    @extend_schema(responses=paged(shapes.ProjectOut), operation_id="projects_list")
    def get(self, request: Any) -> Response:
        rows = selectors.projects(request.actor.home(), archived=True)
        return CursorPage.answer(request, rows, lambda row: shapes.ProjectOut(row).data)

    @extend_schema(request=shapes.ProjectIn, responses={201: shapes.ProjectOut}, operation_id="projects_create")
    @idempotent
    def post(self, request: Any) -> Response:
        values = parsed(shapes.ProjectIn, request)
        made = projects.create(organisation=request.actor.home(), by=request.actor.id, now=clock.now(), **values)
        return tagged(shapes.ProjectOut(made).data, 201)


class Project(APIView):
    permission_classes = [Needs(get="work.read", patch="projects.manage", delete="projects.manage")]

    @extend_schema(responses=shapes.ProjectOut, operation_id="projects_get")
    def get(self, request: Any, slug: str) -> Response:
        return tagged(shapes.ProjectOut(selectors.project(request.actor.home(), slug)).data)

    @extend_schema(request=shapes.ProjectChange, responses=shapes.ProjectOut, operation_id="projects_change")
    def patch(self, request: Any, slug: str) -> Response:
        row = selectors.project(request.actor.home(), slug)
        values = parsed(shapes.ProjectChange, request)
        demand_match(request, shapes.ProjectOut(row).data)
        return tagged(
            shapes.ProjectOut(projects.change(project=row, by=request.actor.id, now=clock.now(), **values)).data
        )

    @extend_schema(responses=shapes.ProjectOut, operation_id="projects_archive")
    def delete(self, request: Any, slug: str) -> Response:
        row = selectors.project(request.actor.home(), slug)
        return Response(shapes.ProjectOut(projects.archive(project=row, by=request.actor.id, now=clock.now())).data)


class Members(APIView):
    permission_classes = [Needs(get="work.read", post="members.manage")]
    answers_with_secret = True

    @extend_schema(responses=paged(shapes.MemberOut), operation_id="members_list")
    def get(self, request: Any) -> Response:
        return CursorPage.answer(
            request, selectors.members(request.actor.home()), lambda row: shapes.MemberOut(row).data
        )

    @extend_schema(request=shapes.InvitationIn, responses={201: shapes.InvitedPersonOut}, operation_id="members_invite")
    @idempotent
    def post(self, request: Any) -> Response:
        actor = request.actor
        values = parsed(shapes.InvitationIn, request)
        made = members.invite(organisation=actor.home(), by=actor.id, by_role=_role(actor), now=clock.now(), **values)
        return Response({**shapes.InvitationOut(made.invitation).data, "link": made.link}, status=201)


class Member(APIView):
    permission_classes = [Needs(get="work.read", patch="members.manage")]

    @extend_schema(responses=shapes.MemberOut, operation_id="members_get")
    def get(self, request: Any, user: str) -> Response:
        return tagged(shapes.MemberOut(selectors.member(request.actor.home(), user)).data)

    @extend_schema(request=shapes.RoleIn, responses=shapes.MemberOut, operation_id="members_change")
    def patch(self, request: Any, user: str) -> Response:
        actor = request.actor
        row = selectors.member(actor.home(), user)
        role = parsed(shapes.RoleIn, request)["role"]
        demand_match(request, shapes.MemberOut(row).data)
        changed = members.change_role(member=row, role=role, by=actor.id, by_role=_role(actor), now=clock.now())
        return tagged(shapes.MemberOut(changed).data)

    @extend_schema(responses={204: None}, operation_id="members_remove")
    def delete(self, request: Any, user: str) -> Response:
        actor = request.actor
        row = selectors.member(actor.home(), user)
        if row.user_id != actor.user.id or actor.key:
            demand(actor, Deed.MEMBERS_MANAGE)
        members.remove(member=row, by=actor.id, by_role=_role(actor), now=clock.now())
        return Response(status=204)


class Invitations(APIView):
    permission_classes = [Needs("members.manage")]

    @extend_schema(responses=paged(shapes.InvitationOut), operation_id="invitations_list")
    def get(self, request: Any) -> Response:
        return CursorPage.answer(
            request, selectors.invitations(request.actor.home()), lambda row: shapes.InvitationOut(row).data
        )


class AcceptInvitation(APIView):
    permission_classes = [Needs()]

    @extend_schema(request=shapes.AcceptIn, responses={201: shapes.MemberOut}, operation_id="invitations_accept")
    @idempotent
    def post(self, request: Any) -> Response:
        token = parsed(shapes.AcceptIn, request)["token"]
        return Response(
            shapes.MemberOut(members.accept(token=token, user=request.actor.user, now=clock.now())).data, status=201
        )


def _role(actor: actors.Actor) -> Role:
    """The role whose rank limits what the actor gives; a parent's reader has none and never comes here."""
    return actor.role or Role.VIEWER
