"""People, organisations in a tree, members, projects, keys and secrets, by their services."""

from datetime import timedelta

import pytest

from portal.accounts import actors, authentication
from portal.accounts.models import Invitation, Membership, Organisation, Secret, User
from portal.accounts.permissions import demand, may
from portal.accounts.services import housekeeping, keys, members, organisations, projects, secrets
from portal.accounts.services.sign_up import create_user, sign_up
from portal.audit.models import AuditEvent
from portal.kit.errors import Conflict, Forbidden, InvalidInput, NotFound, NotSignedIn
from portal.outbox.models import OutboxMessage
from portal.vault import Unreadable, decrypt
from tests.cast import PASSWORD, THEN, a_member, a_newcomer

LATER = THEN + timedelta(hours=1)
FORM = {"email": "new@example.org", "password": PASSWORD, "organisation_name": "New", "currency": "CNY", "now": THEN}


# --- signing up --------------------------------------------------------------------------------------------------------
def test_a_newcomer_owns_an_organisation_with_a_project(db):
    made = sign_up(**FORM, period_timezone="Asia/Shanghai")
    assert (made.organisation.slug, made.organisation.currency) == ("new", "CNY")
    assert made.user.check_password(PASSWORD)
    assert made.user.memberships.get().role == "owner"
    assert made.organisation.projects.get().slug == "default"
    assert set(AuditEvent.objects.values_list("deed", flat=True)) == {"user.create", "organisation.create"}


def test_every_fault_of_the_form_at_once(db):
    with pytest.raises(InvalidInput) as refused:
        sign_up(
            email="nobody",
            password="short",
            organisation_name=" ",
            currency="XAU",
            period_timezone="Mars/Base",
            now=THEN,
        )
    assert {finding.path for finding in refused.value.errors} == {
        "email", "password", "organisation_name", "currency", "period_timezone"
    }  # fmt: skip
    assert not User.objects.exists()


def test_an_address_signs_up_once_in_any_case(db):
    sign_up(**FORM)
    with pytest.raises(InvalidInput) as refused:
        sign_up(**{**FORM, "email": "NEW@example.org", "organisation_name": "Other"})
    assert refused.value.errors[0].code == "taken"
    assert Organisation.objects.count() == 1


def test_two_organisations_of_one_name_get_two_slugs(db):
    first, second = sign_up(**FORM), sign_up(**{**FORM, "email": "b@example.org"})
    assert first.organisation.slug == "new"
    assert second.organisation.slug.startswith("new-")


def test_a_chinese_name_gets_a_slug_too(db):
    assert sign_up(**{**FORM, "organisation_name": "苔原研究院"}).organisation.slug


# --- the tree ----------------------------------------------------------------------------------------------------------
def tree(ada, count):
    """A chain of organisations below ada's, of `count` levels with hers."""
    chain = [ada.organisation]
    for n in range(count - 1):
        chain.append(
            organisations.create(owner=ada.user, name=f"Level {n}", currency="CNY", parent=chain[-1], now=THEN)
        )
    return chain


def test_eight_levels_and_no_more(ada):
    chain = tree(ada, 8)
    with pytest.raises(InvalidInput) as refused:
        organisations.create(owner=ada.user, name="Too deep", currency="CNY", parent=chain[-1], now=THEN)
    assert refused.value.errors[0].code == "too_deep"


def test_no_circles(ada):
    chain = tree(ada, 3)
    for parent in (chain[2], chain[1], chain[0]):
        with pytest.raises(InvalidInput) as refused:
            organisations.set_parent(organisation=chain[0], parent=parent, by=ada.id, now=LATER)
        assert refused.value.errors[0].code == "circle"
    moved = organisations.set_parent(organisation=chain[2], parent=chain[0], by=ada.id, now=LATER)
    assert moved.parent == chain[0]
    assert organisations.set_parent(organisation=moved, parent=None, by=ada.id, now=LATER).parent is None


def test_a_subtree_moves_only_where_it_fits(ada, cleo):
    chain = tree(ada, 7)
    organisations.create(owner=cleo.user, name="Below", currency="CNY", parent=cleo.organisation, now=THEN)
    with pytest.raises(InvalidInput):
        organisations.set_parent(organisation=cleo.organisation, parent=chain[6], by=cleo.id, now=LATER)
    organisations.set_parent(organisation=cleo.organisation, parent=chain[5], by=cleo.id, now=LATER)


@pytest.mark.parametrize(
    ("role", "reads"), [("owner", True), ("admin", True), ("billing", True), ("viewer", True), ("developer", False)]
)
def test_a_parents_people_read_the_money_of_its_children_and_nothing_else(ada, cleo, role, reads):
    organisations.set_parent(organisation=cleo.organisation, parent=ada.organisation, by=ada.id, now=LATER)
    person = ada if role == "owner" else a_member(ada, "m@example.org", role)
    if not reads:
        with pytest.raises(NotFound):
            actors.of_user(person.user, cleo.organisation.slug)
        return
    actor = actors.of_user(person.user, cleo.organisation.slug)
    assert (actor.deeds, actor.role) == (frozenset({"money.read"}), None)
    with pytest.raises(NotFound):
        actors.of_user(cleo.user, ada.organisation.slug)


def test_changes_are_audited_with_before_and_after(ada):
    organisations.change(organisation=ada.organisation, by=ada.id, now=LATER, name="Moss Laboratory", tax_id="91")
    event = AuditEvent.objects.get(deed="organisation.change")
    assert (event.data["before"]["name"], event.data["after"]["name"]) == ("Moss Lab", "Moss Laboratory")
    for bad in ({"currency": "USD"}, {"period_timezone": "Mars"}, {"name": ""}):
        with pytest.raises(InvalidInput):
            organisations.change(organisation=ada.organisation, by=ada.id, now=LATER, **bad)


def test_a_suspended_organisation_reads_and_pays(ada, staff):
    organisations.suspend(organisation=ada.organisation, by=staff.id, reason="fraud", now=LATER)
    actor = actors.of_user(ada.user)
    assert may(actor, "money.move")
    assert may(actor, "work.read")
    with pytest.raises(Forbidden) as refused:
        demand(actor, "jobs.run")
    assert refused.value.code == "organisation_suspended"
    with pytest.raises(Conflict):
        organisations.suspend(organisation=ada.organisation, by=staff.id, reason="again", now=LATER)
    organisations.resume(organisation=ada.organisation, by=staff.id, now=LATER)
    assert may(actors.of_user(ada.user), "jobs.run")


def test_an_operator_verifies_once_and_sets_limits(sol, staff):
    for _ in range(2):
        assert organisations.verify_provider(
            organisation=sol.organisation, verified=True, by=staff.id, now=LATER
        ).provider_verified
    assert AuditEvent.objects.filter(deed="provider.verify").count() == 1
    assert (
        organisations.set_credit_limit(
            organisation=sol.organisation, minor=100, by=staff.id, now=LATER
        ).credit_limit_minor
        == 100
    )
    with pytest.raises(InvalidInput):
        organisations.set_credit_limit(organisation=sol.organisation, minor=-1, by=staff.id, now=LATER)


# --- members -----------------------------------------------------------------------------------------------------------
def invite(ada, email="dora@example.org", role="developer", by_role="owner"):
    from portal.accounts.models import Role

    return members.invite(
        organisation=ada.organisation, email=email, role=role, by=ada.id, by_role=Role(by_role), now=THEN
    )


def test_an_invitation_is_mailed_and_works_once_for_its_address(ada):
    invited = invite(ada)
    mail = OutboxMessage.objects.get(topic="mail")
    assert invited.link in mail.payload["body"]
    dora = create_user(email="Dora@example.org", password=PASSWORD, now=THEN)
    other = create_user(email="eve@example.org", password=PASSWORD, now=THEN)
    with pytest.raises(Forbidden):
        members.accept(token=invited.token, user=other, now=LATER)
    assert members.accept(token=invited.token, user=dora, now=LATER).role == "developer"
    with pytest.raises(NotFound):
        members.accept(token=invited.token, user=dora, now=LATER)


@pytest.mark.parametrize("token", ["", "nonsense"])
def test_unknown_invitations(ada, token):
    with pytest.raises(NotFound):
        members.accept(token=token, user=ada.user, now=LATER)


def test_an_invitation_ends_after_seven_days_or_when_withdrawn(ada):
    dora = create_user(email="dora@example.org", password=PASSWORD, now=THEN)
    with pytest.raises(NotFound):
        members.accept(token=invite(ada).token, user=dora, now=THEN + timedelta(days=7))
    again = invite(ada)
    members.withdraw_invitation(invitation=again.invitation, by=ada.id, now=LATER)
    with pytest.raises(NotFound):
        members.accept(token=again.token, user=dora, now=LATER)
    with pytest.raises(Conflict):
        members.withdraw_invitation(invitation=again.invitation, by=ada.id, now=LATER)


def test_bad_invitations(ada, ben):
    for email, role in (("nobody", "developer"), ("d@example.org", "king")):
        with pytest.raises(InvalidInput):
            invite(ada, email, role)
    with pytest.raises(Conflict):
        invite(ada, "ben@example.org")
    with pytest.raises(Forbidden):
        invite(ada, role="owner", by_role="admin")
    assert not Invitation.objects.exists()


def test_roles_up_to_ones_own(ada, ben):
    from portal.accounts.models import Role

    change = {"by": ada.id, "now": LATER}
    assert members.change_role(member=ben.member, role="admin", by_role=Role.ADMIN, **change).role == "admin"
    for member, role in ((ada.member, "admin"), (ben.member, "owner")):
        with pytest.raises(Forbidden):
            members.change_role(member=member, role=role, by_role=Role.ADMIN, **change)
    with pytest.raises(InvalidInput):
        members.change_role(member=ben.member, role="king", by_role=Role.OWNER, **change)


def test_the_last_owner_stays(ada, ben):
    from portal.accounts.models import Role

    for leave in (
        lambda: members.remove(member=ada.member, by=ada.id, by_role=Role.OWNER, now=LATER),
        lambda: members.change_role(member=ada.member, role="viewer", by=ada.id, by_role=Role.OWNER, now=LATER),
    ):
        with pytest.raises(Conflict) as refused:
            leave()
        assert refused.value.code == "last_owner"
    members.change_role(member=ben.member, role="owner", by=ada.id, by_role=Role.OWNER, now=LATER)
    members.remove(member=ada.member, by=ada.id, by_role=Role.OWNER, now=LATER)
    assert list(Membership.objects.filter(organisation=ada.organisation).values_list("user__email", flat=True)) == [
        "ben@example.org"
    ]
    with pytest.raises(NotFound):
        members.remove(
            member=Membership(id=10**6, organisation=ada.organisation), by=ada.id, by_role=Role.OWNER, now=LATER
        )


# --- projects ----------------------------------------------------------------------------------------------------------
def test_projects_have_departments_and_are_archived(ada):
    project = projects.create(organisation=ada.organisation, slug="vision", department="物理系", by=ada.id, now=THEN)
    assert (project.name, project.department) == ("vision", "物理系")
    assert projects.change(project=project, by=ada.id, now=LATER, name="Vision", department="").department == ""
    assert projects.archive(project=project, by=ada.id, now=LATER).archived_at == LATER
    with pytest.raises(Conflict):
        projects.archive(project=project, by=ada.id, now=LATER)
    for fields in (
        {"slug": "vision"},
        {"slug": "Vision!"},
        {"slug": "a", "name": "x" * 121},
        {"slug": "b", "department": "\x00"},
    ):
        with pytest.raises(InvalidInput):
            projects.create(organisation=ada.organisation, by=ada.id, now=LATER, **fields)
    with pytest.raises(InvalidInput):
        projects.change(project=project, by=ada.id, now=LATER, slug="other")


# --- keys --------------------------------------------------------------------------------------------------------------
def test_a_key_signs_in_with_at_most_its_makers_deeds(ben):
    made = ben.key(scopes=["work.read", "jobs.run"])
    assert made.text not in str(vars(made.key))
    actor = actors.of_key(authentication.find_key(made.text, LATER), LATER)
    assert (actor.deeds, actor.id, actor.is_operator) == (
        frozenset({"work.read", "jobs.run"}),
        made.key.public_id,
        False,
    )
    for scopes in (["members.manage"], ["fly"], []):
        with pytest.raises(InvalidInput):
            ben.key(scopes=scopes)


def test_a_key_is_cut_down_with_its_makers_role_and_dies_with_the_membership(ada, ben):
    from portal.accounts.models import Role

    made = ben.key()
    members.change_role(member=ben.member, role="viewer", by=ada.id, by_role=Role.OWNER, now=LATER)
    assert "jobs.run" not in actors.of_key(authentication.find_key(made.text, LATER), LATER).deeds
    members.remove(member=ben.member, by=ada.id, by_role=Role.OWNER, now=LATER)
    assert authentication.find_key(made.text, LATER) is None


def test_a_key_makes_no_stronger_key(ada):
    with pytest.raises(InvalidInput):
        keys.create(
            member=ada.member, name="k", by="key", scopes=["jobs.run"], within=frozenset({"work.read"}), now=LATER
        )


def test_keys_expire_and_are_revoked(ada):
    made = ada.key(expires_at=LATER)
    assert authentication.find_key(made.text, THEN)
    assert authentication.find_key(made.text, LATER) is None
    lasting = ada.key()
    keys.revoke(key=lasting.key, by=ada.id, now=LATER)
    assert authentication.find_key(lasting.text, LATER) is None
    with pytest.raises(Conflict):
        keys.revoke(key=lasting.key, by=ada.id, now=LATER)
    with pytest.raises(InvalidInput):
        ada.key(expires_at=THEN)


@pytest.mark.parametrize("text", ["", "idw", "idw_", "idw_a_", "idw__b", "idw_nothing_here", "abc_def_ghi"])
def test_texts_that_are_no_keys(db, text):
    assert authentication.find_key(text, THEN) is None


def test_the_right_prefix_with_another_secret_is_no_key(ada):
    made = ada.key()
    other = "x" if made.text[-1] != "x" else "y"
    assert authentication.find_key(made.text[:-1] + other, THEN) is None


def test_a_key_of_another_organisations_project_is_refused(ada, cleo):
    with pytest.raises(InvalidInput):
        ada.key(project=cleo.project)


# --- secrets -----------------------------------------------------------------------------------------------------------
def test_secrets_are_stored_sealed_and_opened_for_an_attempt(ada):
    secret = secrets.put(organisation=ada.organisation, name="HUB_TOKEN", value="s3cret", by=ada.id, now=THEN)
    assert "s3cret" not in secret.sealed
    opened = secrets.open_for_attempt(
        organisation=ada.organisation,
        project=None,
        names=["HUB_TOKEN", "OTHER"],
        attempt="att_1",
        node="nod_1",
        now=LATER,
    )
    assert opened == {"HUB_TOKEN": "s3cret"}
    event = AuditEvent.objects.get(deed="secret.open")
    assert (event.actor, event.target, event.data) == ("nod_1", "att_1", {"names": ["HUB_TOKEN"]})
    assert "s3cret" not in str(list(AuditEvent.objects.values()))
    assert (
        secrets.open_for_attempt(
            organisation=ada.organisation, project=None, names=[], attempt="a", node="n", now=LATER
        )
        == {}
    )


def test_a_projects_own_secret_wins_there(ada):
    put = {"organisation": ada.organisation, "name": "T", "by": ada.id, "now": THEN}
    secrets.put(value="organisation", **put)
    secrets.put(value="project", project=ada.project, **put)
    secrets.put(value="organisation 2", **put)

    def opened(project):
        return secrets.open_for_attempt(
            organisation=ada.organisation, project=project, names=["T"], attempt="a", node="n", now=LATER
        )["T"]

    assert (opened(ada.project), opened(None)) == ("project", "organisation 2")
    assert Secret.objects.count() == 2
    assert secrets.missing(organisation=ada.organisation, project=None, names=["T", "U"]) == ["U"]


def test_a_ciphertext_does_not_open_in_another_row(ada, cleo):
    secret = secrets.put(organisation=ada.organisation, name="T", value="x", by=ada.id, now=THEN)
    with pytest.raises(Unreadable):
        decrypt(secret.sealed, about=f"secret:{cleo.organisation.public_id}:T")


@pytest.mark.parametrize(("name", "value"), [("1T", "x"), ("A-B", "x"), ("", "x"), ("T", ""), ("T", "x" * 65_537)])
def test_bad_secrets(ada, name, value):
    with pytest.raises(InvalidInput):
        secrets.put(organisation=ada.organisation, name=name, value=value, by=ada.id, now=THEN)


def test_secrets_are_sealed_anew_under_the_newest_key(ada, settings):
    secrets.put(organisation=ada.organisation, name="T", value="x", by=ada.id, now=THEN)
    settings.IDLEWILD_VAULT_KEYS = "k9:" + "9" * 64 + "," + settings.IDLEWILD_VAULT_KEYS
    assert secrets.rotate(now=LATER) == 1
    assert secrets.rotate(now=LATER) == 0
    assert Secret.objects.get().sealed.startswith("k9:")
    secrets.delete(secret=Secret.objects.get(), by=ada.id, now=LATER)
    assert not Secret.objects.exists()


# --- the rest ----------------------------------------------------------------------------------------------------------
def test_housekeeping(ada):
    invite(ada)
    assert housekeeping.expire(now=THEN + timedelta(days=8))["invitations"] == 0
    assert housekeeping.expire(now=THEN + timedelta(days=38))["invitations"] == 1


def test_who_belongs_nowhere_has_no_home(staff):
    actor = actors.of_user(staff.user)
    assert (actor.organisation, actor.deeds, actor.is_operator) == (None, frozenset(), True)
    with pytest.raises(NotFound):
        actor.home()
    with pytest.raises(NotSignedIn):
        demand(None, "work.read")


def test_the_first_membership_is_home_unless_another_is_named(ada):
    other = a_newcomer("z@example.org", "Zed")
    Membership.objects.create(user=ada.user, organisation=other.organisation, role="viewer", created_at=THEN)
    assert actors.of_user(ada.user).organisation == ada.organisation
    assert actors.of_user(ada.user, "zed").role == "viewer"
