"""Settings: projects, members, API keys, secrets, the organisation, the own profile."""

from datetime import timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from frontend.doors import PageRequest, page, show, who_can_grant
from frontend.forms import accounts as shapes
from frontend.forms.signup import OrganisationFields
from frontend.paging import page_of
from frontend.presenters import deeds
from portal import clock
from portal.accounts.authentication import SESSION_KEY
from portal.accounts.models import Organisation, Role
from portal.accounts.permissions import RANK, Deed, demand, may
from portal.accounts.selectors import keys as key_selectors
from portal.accounts.selectors import organisations as selectors
from portal.accounts.services import keys, members, organisations, people, projects, secrets
from portal.audit import selectors as audit
from portal.kit.errors import InvalidInput

Row = dict[str, Any]


def explain(form: forms.Form, refused: InvalidInput) -> None:
    """The findings of a service, at the fields they belong to."""
    for finding in refused.errors:
        field = finding.path.split("[")[0]
        text = f"{finding.message} ({finding.hint})" if finding.hint else str(finding.message)
        form.add_error(field if field in form.fields else None, text)


def grant(request: PageRequest, deed: Deed) -> Row:
    """What a page part needs to say when the role does not include it."""
    return {"who_can_grant": "" if may(request.actor, deed) else who_can_grant(request.actor)}


@page("work.read")
def project_list(request: PageRequest) -> HttpResponse:
    home = request.actor.home()
    form = shapes.ProjectForm(request.POST or None)
    if request.method == "POST":
        demand(request.actor, Deed.PROJECTS_MANAGE)
        if form.is_valid():
            try:
                made = projects.create(organisation=home, by=request.actor.id, now=clock.now(), **form.cleaned_data)
            except InvalidInput as refused:
                explain(form, refused)
            else:
                messages.success(request, _("The project %(name)s is made.") % {"name": made.name})
                return redirect("console:projects")
    context = {
        "form": form,
        "projects": selectors.projects(home, archived=True),
        "may_manage": may(request.actor, Deed.PROJECTS_MANAGE),
    }
    return show(
        request, "projects/list", context | grant(request, Deed.PROJECTS_MANAGE), status=422 if form.errors else 200
    )


@page("projects.manage")
def project(request: PageRequest, slug: str) -> HttpResponse:
    found = selectors.project(request.actor.home(), slug)
    form = shapes.ProjectChangeForm(request.POST or None, initial={"name": found.name, "department": found.department})
    if request.method == "POST" and request.POST.get("do") == "archive":
        projects.archive(project=found, by=request.actor.id, now=clock.now())
        return redirect("console:projects")
    if request.method == "POST" and form.is_valid():
        try:
            projects.change(project=found, by=request.actor.id, now=clock.now(), **form.cleaned_data)
        except InvalidInput as refused:
            explain(form, refused)
        else:
            messages.success(request, _("Saved."))
            return redirect("console:projects")
    return show(request, "projects/detail", {"form": form, "project": found}, status=422 if form.errors else 200)


@page("work.read")
def member_list(request: PageRequest) -> HttpResponse:
    actor, home = request.actor, request.actor.home()
    may_manage = may(actor, Deed.MEMBERS_MANAGE)
    roles = [
        (value, text) for value, text in shapes.role_choices() if actor.role and RANK[Role(value)] <= RANK[actor.role]
    ]
    form = shapes.InviteForm(request.POST if request.POST.get("do") == "invite" else None, roles=roles)
    invited = None
    if request.method == "POST":
        demand(actor, Deed.MEMBERS_MANAGE)
        if request.POST.get("do") == "invite":
            invited = _invite(request, form)
        else:
            _change_member(request)
            return redirect("console:members")
    context = {
        "form": form if not invited else shapes.InviteForm(roles=roles),
        "invited": invited,
        "members": selectors.members(home),
        "invitations": [row for row in selectors.invitations(home) if row.expires_at > clock.now()]
        if may_manage
        else [],
        "may_manage": may_manage,
        "roles": roles,
        "all_roles": shapes.role_choices(),
        "deeds": deeds.table(),
        "mail_to_files": settings.IDLEWILD_MAIL_TO_FILES,
    }
    status = 422 if form.errors else 200
    return show(request, "settings/members", context | grant(request, Deed.MEMBERS_MANAGE), status=status)


def _invite(request: PageRequest, form: shapes.InviteForm) -> Any:
    if not form.is_valid() or request.actor.role is None:
        return None
    try:
        return members.invite(
            organisation=request.actor.home(),
            by=request.actor.id,
            by_role=request.actor.role,
            now=clock.now(),
            **form.cleaned_data,
        )
    except InvalidInput as refused:
        explain(form, refused)
        return None


def _change_member(request: PageRequest) -> None:
    member = selectors.member(request.actor.home(), request.POST.get("member", ""))
    by = {"by": request.actor.id, "by_role": request.actor.role, "now": clock.now()}
    if request.POST.get("do") == "remove":
        members.remove(member=member, **by)
        messages.success(request, _("%(name)s is no longer a member.") % {"name": member.user})
    else:
        members.change_role(member=member, role=request.POST.get("role", ""), **by)
        messages.success(request, _("The role of %(name)s is changed.") % {"name": member.user})


@page("work.read")
def key_list(request: PageRequest) -> HttpResponse:
    actor = request.actor
    own = [(deed, deeds.text(deed)) for deed in sorted(actor.deeds)]
    asked = request.POST.get("do", "")
    form = shapes.KeyForm(request.POST if asked == "make" else None, deeds=own)
    made = None
    if asked == "revoke":
        keys.revoke(key=key_selectors.one(actor, request.POST.get("key", "")), by=actor.id, now=clock.now())
        messages.success(request, _("The key opens nothing any more."))
        return redirect("console:keys")
    if asked == "make" and form.is_valid():
        now, values = clock.now(), form.cleaned_data
        try:
            made = keys.create(
                member=selectors.member(actor.home(), actor.user.public_id),
                name=values["name"],
                scopes=values["scopes"],
                expires_at=now + timedelta(days=values["days"]) if values["days"] else None,
                by=actor.id,
                now=now,
            )
        except InvalidInput as refused:
            explain(form, refused)
    context = {
        "form": form if not made else shapes.KeyForm(deeds=own),
        "made": made,
        "keys": key_selectors.visible_to(actor),
        "base_url": settings.IDLEWILD_BASE_URL,
    }
    return show(request, "settings/keys", context, status=422 if form.errors else 200)


@page("work.read")
def secret_list(request: PageRequest) -> HttpResponse:
    actor, home = request.actor, request.actor.home()
    known = [(row.slug, row.name) for row in selectors.projects(home)]
    asked = request.POST.get("do", "")
    form = shapes.SecretForm(request.POST if asked == "put" else None, projects=known)
    if request.method == "POST":
        demand(actor, Deed.SECRETS_SET)
        if asked == "delete":
            secrets.delete(
                secret=key_selectors.secret(home, request.POST.get("secret", "")), by=actor.id, now=clock.now()
            )
            messages.success(request, _("The secret is deleted."))
            return redirect("console:secrets")
        if form.is_valid() and _store_secret(request, form):
            messages.success(request, _("The secret is stored. It cannot be read back."))
            return redirect("console:secrets")
    context = {"form": form, "secrets": key_selectors.secrets(home), "may_set": may(actor, Deed.SECRETS_SET)}
    status = 422 if form.errors else 200
    return show(request, "settings/secrets", context | grant(request, Deed.SECRETS_SET), status=status)


def _store_secret(request: PageRequest, form: shapes.SecretForm) -> bool:
    home, values = request.actor.home(), form.cleaned_data
    try:
        secrets.put(
            organisation=home,
            name=values["name"],
            value=values["value"],
            project=selectors.project(home, values["project"]) if values["project"] else None,
            by=request.actor.id,
            now=clock.now(),
        )
    except InvalidInput as refused:
        explain(form, refused)
        return False
    return True


@page("work.read")
def organisation(request: PageRequest) -> HttpResponse:
    actor, home = request.actor, request.actor.home()
    above = [row for row in selectors.for_user(actor.user) if row.id != home.id]
    initial = {name: getattr(home, name) for name in ("name", "period_timezone", "tax_id", "country", "address")}
    initial["parent"] = home.parent.slug if home.parent else ""
    parents = {row.slug: row for row in [*above, *([home.parent] if home.parent else [])]}
    form = shapes.OrganisationForm(
        request.POST or None, initial=initial, parents=[(slug, row.name) for slug, row in parents.items()]
    )
    if request.method == "POST":
        demand(actor, Deed.ORGANISATION_MANAGE)
        if form.is_valid() and _save_organisation(request, form, parents):
            messages.success(request, _("Saved."))
            return redirect("console:organisation")
    events, older = page_of(request, audit.for_organisation(home.id)) if may(actor, Deed.AUDIT_READ) else (None, "")
    context = {
        "form": form,
        "may_manage": may(actor, Deed.ORGANISATION_MANAGE),
        "ancestors": _above(home),
        "children": selectors.children(home),
        "events": events,
        "older": older,
    }
    status = 422 if form.errors else 200
    return show(request, "settings/organisation", context | grant(request, Deed.ORGANISATION_MANAGE), status=status)


def _above(home: Organisation) -> list[Organisation]:
    """The organisations above, the highest first."""
    found: list[Organisation] = []
    while home.parent is not None:
        home = home.parent
        found.insert(0, home)
    return found


def _save_organisation(request: PageRequest, form: shapes.OrganisationForm, parents: dict[str, Any]) -> bool:
    home, values = request.actor.home(), dict(form.cleaned_data)
    parent = parents.get(values.pop("parent", ""))
    values["country"] = values["country"].upper()
    try:
        organisations.change(organisation=home, by=request.actor.id, now=clock.now(), **values)
        if parent != home.parent:
            organisations.set_parent(organisation=home, parent=parent, by=request.actor.id, now=clock.now())
    except InvalidInput as refused:
        explain(form, refused)
        return False
    return True


@page(organisation=False)
def organisation_new(request: PageRequest) -> HttpResponse:
    form = OrganisationFields(request.POST or None, initial={"period_timezone": request.user.time_zone})
    if request.method == "POST" and form.is_valid():
        try:
            made = form.make_organisation(request.user)
        except InvalidInput as refused:
            explain(form, refused)
        else:
            request.session[SESSION_KEY] = made.slug
            return redirect("console:home")
    return show(request, "settings/organisation_new", {"form": form}, status=422 if form.errors else 200)


@page(organisation=False)
def profile(request: PageRequest) -> HttpResponse:
    user = request.user
    initial = {name: getattr(user, name) for name in ("name", "time_zone", "language", "theme")}
    form = shapes.ProfileForm(request.POST or None, initial=initial)
    if request.method == "POST" and form.is_valid():
        people.prefer(user=user, **form.cleaned_data)
        messages.success(request, _("Saved."))
        answer = redirect("console:profile")
        answer.delete_cookie(settings.LANGUAGE_COOKIE_NAME)
        answer.delete_cookie("theme")
        return answer
    return show(request, "settings/profile", {"form": form}, status=422 if form.errors else 200)


def invitation(request: HttpRequest, token: str) -> HttpResponse:
    """The page behind an invitation's link."""
    found = members.open_invitation(token, clock.now())
    if request.method == "POST" and request.user.is_authenticated:
        member = members.accept(token=token, user=request.user, now=clock.now())
        request.session[SESSION_KEY] = member.organisation.slug
        return redirect("console:home")
    return show(request, "settings/invitation", {"invitation": found})
