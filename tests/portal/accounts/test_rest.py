"""Accounts over REST: who may, what strangers see, what is refused."""

from datetime import timedelta

import pytest
from rest_framework.test import APIClient

from portal import clock
from portal.accounts.models import ApiKey, Membership, Organisation, Project, Secret
from portal.accounts.services import organisations
from portal.audit.models import AuditEvent
from tests.cast import THEN, a_member

API = "/api/v1"


def post(client, path, body=None, **headers):
    return client.post(f"{API}{path}", body or {}, format="json", headers=headers)


# --- signing in --------------------------------------------------------------------------------------------------------
def test_me_by_session_and_by_key(ada, ben):
    me = ada.web().get(f"{API}/me").json()
    assert (me["email"], me["role"], me["organisation"]["slug"], me["key"]) == (
        "ada@example.org",
        "owner",
        "moss-lab",
        None,
    )
    by_key = ben.program(scopes=["work.read"]).get(f"{API}/me").json()
    assert by_key["deeds"] == ["work.read"]
    assert by_key["key"].startswith("key_")


@pytest.mark.parametrize("header", ["Bearer idw_nothing_here", "Bearer", "Bearer x", "bearer idw_a_b"])
def test_bad_keys_are_401_with_the_scheme(client, db, header):
    answer = client.get(f"{API}/me", headers={"Authorization": header})
    assert (answer.status_code, answer.json()["code"]) == (401, "key_refused")
    assert answer["WWW-Authenticate"].startswith("Bearer")


def test_another_scheme_is_not_ours(client, db):
    answer = client.get(f"{API}/me", headers={"Authorization": "Basic YTpi"})
    assert (answer.status_code, answer.json()["code"]) == (401, "not_signed_in")


def test_a_session_needs_the_csrf_token_to_write(ada):
    answer = post(ada.web(enforce_csrf_checks=True), "/projects", {"slug": "x"})
    assert answer.status_code == 403
    assert not Project.objects.filter(slug="x").exists()


def test_a_strangers_organisation_is_404(ada, cleo):
    for client in (ada.web(), ada.program()):
        answer = client.get(f"{API}/projects", headers={"X-Idlewild-Organisation": cleo.organisation.slug})
        assert (answer.status_code, answer.json()["code"]) == (404, "organisation_not_found")


def test_a_member_of_two_chooses_by_header(ada, cleo):
    Membership.objects.create(user=ada.user, organisation=cleo.organisation, role="viewer", created_at=THEN)
    client = ada.web()
    chosen = client.get(f"{API}/me", headers={"X-Idlewild-Organisation": cleo.organisation.slug}).json()
    assert (chosen["role"], chosen["organisations"]) == ("viewer", ["clear-water", "moss-lab"])
    session = client.session
    session["organisation"] = cleo.organisation.slug
    session.save()
    assert client.get(f"{API}/me").json()["role"] == "viewer"
    session["organisation"] = "gone"
    session.save()
    assert client.get(f"{API}/me").json()["role"] == "owner", "a remembered one that is gone does not lock out"


def test_a_parents_key_reads_money_of_a_child_only_with_that_scope(ada, cleo):
    organisations.set_parent(organisation=cleo.organisation, parent=ada.organisation, by=ada.id, now=THEN)
    header = {"X-Idlewild-Organisation": cleo.organisation.slug}
    assert ada.program(scopes=["money.read"]).get(f"{API}/me", headers=header).json()["deeds"] == ["money.read"]
    assert ada.program(scopes=["work.read"]).get(f"{API}/me", headers=header).status_code == 404
    assert ada.program(scopes=["money.read"]).get(f"{API}/projects", headers=header).status_code == 403


def test_last_use_of_a_key_is_noted(ada):
    ada.program().get(f"{API}/me")
    assert ApiKey.objects.get().last_used_at is not None


# --- organisations -----------------------------------------------------------------------------------------------------
def test_make_change_and_hang_up_an_organisation(ada):
    client = ada.web()
    made = post(client, "/organisations", {"name": "Group", "currency": "CNY", "parent": "moss-lab"})
    assert (made.status_code, made.json()["parent"]) == (201, "moss-lab")
    shown = client.get(f"{API}/organisations/group")
    changed = client.patch(
        f"{API}/organisations/group",
        {"name": "The Group", "parent": None},
        format="json",
        headers={"If-Match": shown["ETag"]},
    )
    assert (changed.status_code, changed.json()["name"], changed.json()["parent"]) == (200, "The Group", None)
    stale = client.patch(
        f"{API}/organisations/group", {"name": "X"}, format="json", headers={"If-Match": shown["ETag"]}
    )
    assert (stale.status_code, stale.json()["code"]) == (412, "precondition_failed")
    missing = client.patch(f"{API}/organisations/group", {"name": "X"}, format="json")
    assert (missing.status_code, missing.json()["code"]) == (412, "if_match_missing")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": "X", "currency": "XAU"},
        {"name": "X", "currency": "CNY", "period_timezone": "Mars"},
        {"name": "X", "currency": "CNY", "slug": "NO"},
        {"name": "X", "currency": "CNY", "slug": "moss-lab"},
        {"name": "X", "currency": "CNY", "owner": "me"},
        {"name": "x" * 121, "currency": "CNY"},
    ],
)
def test_bad_organisations(ada, body):
    assert post(ada.web(), "/organisations", body).status_code == 422
    assert Organisation.objects.count() == 1


def test_a_parent_must_be_ones_own(ada, cleo):
    answer = post(ada.web(), "/organisations", {"name": "X", "currency": "CNY", "parent": cleo.organisation.slug})
    assert answer.status_code == 404
    viewer = a_member(cleo, "v@example.org", "viewer")
    answer = post(viewer.web(), "/organisations", {"name": "X", "currency": "CNY", "parent": cleo.organisation.slug})
    assert answer.status_code == 403
    assert Organisation.objects.count() == 2


def test_operators_suspend_and_verify_and_nobody_else_sees_the_door(ada, staff):
    assert post(staff.web(), "/organisations/moss-lab:suspend", {"reason": "fraud"}).json()["state"] == "suspended"
    refused = post(ada.web(), "/projects", {"slug": "x"})
    assert (refused.status_code, refused.json()["code"]) == (403, "organisation_suspended")
    assert post(staff.web(), "/organisations/moss-lab:resume").json()["state"] == "active"
    assert post(staff.web(), "/organisations/moss-lab:verify").json()["provider_verified"] is True
    assert post(staff.web(), "/organisations/moss-lab:unverify").json()["provider_verified"] is False
    assert post(staff.web(), "/organisations/nothing:verify").status_code == 404
    for client in (ada.web(), ada.program()):
        assert post(client, "/organisations/moss-lab:verify").status_code == 404
    assert len(staff.web().get(f"{API}/organisations").json()["items"]) == 1


# --- projects, members -------------------------------------------------------------------------------------------------
def test_projects(ada, cleo):
    client = ada.web()
    made = post(client, "/projects", {"slug": "vision", "department": "物理系"})
    assert (made.status_code, made.json()["department"]) == (201, "物理系")
    shown = client.get(f"{API}/projects/vision")
    changed = client.patch(f"{API}/projects/vision", {"name": "V"}, format="json", headers={"If-Match": shown["ETag"]})
    assert changed.json()["name"] == "V"
    assert client.delete(f"{API}/projects/vision").json()["archived"] is not None
    assert client.delete(f"{API}/projects/vision").status_code == 409
    for method in ("get", "delete"):
        assert getattr(cleo.web(), method)(f"{API}/projects/vision").status_code == 404
    assert cleo.web().patch(f"{API}/projects/vision", {"name": "stolen"}, format="json").status_code == 404
    assert Project.objects.get(slug="vision").name == "V"


@pytest.mark.parametrize(
    "body", [{}, {"slug": "No!"}, {"slug": "default"}, {"slug": "x", "budget": 3}, {"slug": "x", "name": "n" * 121}]
)
def test_bad_projects(ada, body):
    assert post(ada.web(), "/projects", body).status_code == 422
    assert Project.objects.count() == 1


def test_members_come_and_go(ada, ben, cleo):
    client = ada.web()
    invited = post(client, "/members", {"email": "dora@example.org", "role": "viewer"})
    assert invited.status_code == 201
    assert "/invitations/" in invited.json()["link"]
    assert len(client.get(f"{API}/invitations").json()["items"]) == 1
    token = invited.json()["link"].rsplit("/", 1)[1]
    assert post(cleo.web(), "/invitations:accept", {"token": token}).status_code == 403
    assert post(cleo.web(), "/invitations:accept", {"token": "x"}).status_code == 404
    shown = client.get(f"{API}/members/{ben.id}")
    changed = client.patch(
        f"{API}/members/{ben.id}", {"role": "admin"}, format="json", headers={"If-Match": shown["ETag"]}
    )
    assert changed.json()["role"] == "admin"
    for method in ("get", "delete"):
        assert getattr(cleo.web(), method)(f"{API}/members/{ben.id}").status_code == 404
    assert client.delete(f"{API}/members/{ada.id}").json()["code"] == "last_owner"
    assert client.delete(f"{API}/members/{ben.id}").status_code == 204
    assert len(client.get(f"{API}/members").json()["items"]) == 1


def test_everybody_may_leave_and_a_developer_removes_nobody_else(ada, ben):
    eve = a_member(ada, "eve@example.org", "viewer")
    assert ben.web().delete(f"{API}/members/{eve.id}").status_code == 403
    assert ben.web().delete(f"{API}/members/{ben.id}").status_code == 204


# --- keys, secrets, audit ----------------------------------------------------------------------------------------------
def test_a_keys_text_is_shown_once(ben):
    client = ben.web()
    made = post(client, "/api-keys", {"name": "ci", "scopes": ["work.read"], "project": "default"})
    assert made.status_code == 201
    text = made.json()["key"]
    assert made.json()["project"] == "default"
    listed = client.get(f"{API}/api-keys")
    assert text not in listed.content.decode()
    assert client.delete(f"{API}/api-keys/{made.json()['id']}").json()["revoked"]
    assert client.get(f"{API}/me", headers={"Authorization": f"Bearer {text}"}).status_code == 401


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"name": "k", "scopes": ["members.manage"]}, 422),
        ({"name": "k", "scopes": []}, 422),
        ({"name": "k", "scopes": "work.read"}, 422),
        ({"name": "k", "expires": "2020-01-01T00:00:00Z"}, 422),
        ({"name": "k", "expires": "soon"}, 422),
        ({"name": "k", "project": "nothing"}, 404),
        ({"name": "k", "secret": "mine"}, 422),
    ],
)
def test_bad_keys_make_nothing(ben, body, status):
    assert post(ben.web(), "/api-keys", body).status_code == status
    assert not ApiKey.objects.exists()


def test_ones_own_keys_and_for_managers_everybodys(ada, ben, cleo):
    key = ben.key().key
    assert ada.web().get(f"{API}/api-keys/{key.public_id}").status_code == 200
    eve = a_member(ada, "eve@example.org", "developer")
    for stranger in (eve, cleo):
        assert stranger.web().get(f"{API}/api-keys/{key.public_id}").status_code == 404
        assert stranger.web().delete(f"{API}/api-keys/{key.public_id}").status_code == 404
    key.refresh_from_db()
    assert key.revoked_at is None


def test_a_key_makes_no_stronger_key_over_rest(ada):
    client = ada.program(scopes=["work.read"])
    assert post(client, "/api-keys", {"name": "k", "scopes": ["jobs.run"]}).status_code == 422
    assert post(client, "/api-keys", {"name": "k"}).json()["scopes"] == ["work.read"]


def test_a_key_makes_none_that_outlives_it(ada):
    """A key that leaks and ends tomorrow would otherwise make itself a successor without an end."""
    ends = clock.now() + timedelta(hours=1)
    text = ada.key(scopes=["work.read"], expires_at=ends).text
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    for expires in (None, (ends + timedelta(days=300)).isoformat()):
        made = post(client, "/api-keys", {"name": "heir", **({"expires": expires} if expires else {})})
        assert made.status_code == 201
        assert ApiKey.objects.get(public_id=made.json()["id"]).expires_at == ends
    sooner = (ends - timedelta(minutes=30)).isoformat()
    made = post(client, "/api-keys", {"name": "short", "expires": sooner})
    assert ApiKey.objects.get(public_id=made.json()["id"]).expires_at == ends - timedelta(minutes=30)


def test_a_key_revokes_itself_and_no_stronger_key(ben):
    strong, weak = ben.key().key, ben.key(scopes=["work.read"])
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {weak.text}")
    assert client.delete(f"{API}/api-keys/{strong.public_id}").status_code == 403
    strong.refresh_from_db()
    assert strong.revoked_at is None
    assert client.delete(f"{API}/api-keys/{weak.key.public_id}").status_code == 200
    assert client.get(f"{API}/me").status_code == 401


def test_secrets_are_written_never_read(ben, cleo):
    client = ben.web()
    made = post(client, "/secrets", {"name": "HUB_TOKEN", "value": " s3cret "})
    assert made.status_code == 201
    assert "s3cret" not in client.get(f"{API}/secrets").content.decode() + made.content.decode()
    assert cleo.web().delete(f"{API}/secrets/{made.json()['id']}").status_code == 404
    assert client.get(f"{API}/secrets/{made.json()['id']}").status_code == 405
    assert client.delete(f"{API}/secrets/HUB_TOKEN").status_code == 204
    assert not Secret.objects.exists()


@pytest.mark.parametrize(
    "body", [{}, {"name": "T"}, {"name": "1", "value": "x"}, {"name": "T", "value": "x", "kind": 1}]
)
def test_bad_secrets(ben, body):
    assert post(ben.web(), "/secrets", body).status_code == 422
    assert not Secret.objects.exists()


def test_the_audit_trail_of_ones_own_organisation(ada, cleo):
    post(ada.web(), "/projects", {"slug": "vision"})
    events = ada.web().get(f"{API}/audit-events").json()["items"]
    assert (events[0]["deed"], events[0]["actor"]) == ("project.create", ada.id)
    assert "vision" not in cleo.web().get(f"{API}/audit-events").content.decode()


def test_paging_is_stable_while_rows_are_added(ada):
    for n in range(5):
        post(ada.web(), "/projects", {"slug": f"p{n}"})
    client = ada.web()
    first = client.get(f"{API}/audit-events", {"limit": 2}).json()
    post(client, "/projects", {"slug": "late"})
    second = client.get(f"{API}/audit-events", {"limit": 2, "cursor": first["next_cursor"]}).json()
    seen = [e["id"] for e in first["items"] + second["items"]]
    expected = list(
        AuditEvent.objects.exclude(data__slug="late").order_by("-id").values_list("public_id", flat=True)[:4]
    )
    assert seen == expected


def test_expired_keys_are_refused(ada):
    made = ada.key(expires_at=THEN + timedelta(days=1))
    ApiKey.objects.update(expires_at=THEN)
    from rest_framework.test import APIClient

    answer = APIClient().get(f"{API}/me", headers={"Authorization": f"Bearer {made.text}"})
    assert answer.status_code == 401
