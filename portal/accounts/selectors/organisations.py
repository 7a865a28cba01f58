"""Which organisations, projects and members somebody sees. Doors ask here and nowhere else."""

from django.db.models import Count, QuerySet
from django.utils.translation import gettext as _

from portal.accounts.actors import MAX_TREE, Actor
from portal.accounts.models import Invitation, Membership, Organisation, Project, User
from portal.accounts.permissions import READERS_OF_CHILDREN
from portal.kit.errors import NotFound


def for_user(user: User) -> QuerySet[Organisation]:
    """The organisations a person belongs to, and those below the ones whose children they may read."""
    own = list(user.memberships.values_list("organisation_id", "role"))
    visible = {organisation for organisation, _role in own}
    visible |= below([organisation for organisation, role in own if role in READERS_OF_CHILDREN])
    return Organisation.objects.filter(id__in=visible).select_related("parent").order_by("name", "id")


def below(organisation_ids: list[int]) -> set[int]:
    """All descendants of these organisations."""
    found: set[int] = set()
    level = list(organisation_ids)
    for _level in range(MAX_TREE):
        if not level:
            break
        level = list(Organisation.objects.filter(parent_id__in=level).values_list("id", flat=True))
        found.update(level)
    return found


def children(organisation: Organisation) -> QuerySet[Organisation]:
    """One level down."""
    return Organisation.objects.filter(parent=organisation).order_by("name", "id")


def visible_to(actor: Actor, slug: str) -> Organisation:
    """The organisation of that slug if the actor sees it (operators see all); NotFound otherwise."""
    rows = Organisation.objects.select_related("parent") if actor.is_operator else for_user(actor.user)
    if actor.key is not None:
        rows = rows.filter(
            id__in={actor.key.membership.organisation_id} | below([actor.key.membership.organisation_id])
        )
    found = rows.filter(slug=slug).first()
    if found is None:
        raise NotFound(
            _("There is no organisation %(slug)s that you can see.") % {"slug": slug}, code="organisation_not_found"
        )
    return found


def by_name(name: str) -> Organisation | None:
    """The organisation of that slug or public id, whoever asks: for operators, and for those who give something to another."""
    return Organisation.objects.filter(slug=name).first() or Organisation.objects.filter(public_id=name).first()


def everybody() -> QuerySet[Organisation]:
    """All organisations with the number of their members and nodes' owners, for operators."""
    return (
        Organisation.objects.annotate(members=Count("memberships", distinct=True))
        .select_related("parent")
        .order_by("-id")
    )


def projects(organisation: Organisation, *, archived: bool = False) -> QuerySet[Project]:
    """The projects of an organisation; without archived ones unless asked."""
    rows = Project.objects.filter(organisation=organisation).select_related("organisation").order_by("slug")
    return rows if archived else rows.filter(archived_at=None)


def project(organisation: Organisation, slug: str) -> Project:
    """One project by slug (or public id); NotFound otherwise."""
    rows = Project.objects.filter(organisation=organisation).select_related("organisation")
    found = rows.filter(slug=slug).first() or rows.filter(public_id=slug).first()
    if found is None:
        raise NotFound(
            _("There is no project %(slug)s in this organisation.") % {"slug": slug}, code="project_not_found"
        )
    return found


def members(organisation: Organisation) -> QuerySet[Membership]:
    """Its members."""
    return Membership.objects.filter(organisation=organisation).select_related("user", "organisation").order_by("id")


def member(organisation: Organisation, user_public_id: str) -> Membership:
    """One member by the person's public id; NotFound otherwise."""
    found = members(organisation).filter(user__public_id=user_public_id).first()
    if found is None:
        raise NotFound(_("There is no such member in this organisation."))
    return found


def invitations(organisation: Organisation) -> QuerySet[Invitation]:
    """Open invitations (accepted and outlived ones too, for the page to grey out)."""
    return Invitation.objects.filter(organisation=organisation, accepted_at=None).order_by("-id")
