"""What people may type wrong: the page comes back with 422, the words, and nothing is changed."""

from typing import Any

import pytest

from portal import clock
from portal.accounts.models import ApiKey, Invitation, Membership, Organisation, Project, Secret, User
from tests.cast import PASSWORD, Person, a_member
from tests.factories.market import a_node, a_zone

pytestmark = pytest.mark.django_db


def text_of(answer: Any) -> str:
    return str(answer.content.decode())


# --- signing up and in ---------------------------------------------------------------------------------------------------
NEWCOMER = {
    "email": "vera@example.org",
    "password1": PASSWORD,
    "name": "Vera",
    "organisation": "Vera Power",
    "currency": "EUR",
    "period_timezone": "Europe/Berlin",
}


def test_signing_up_makes_a_person_and_an_organisation(client: Any) -> None:
    answer = client.post("/accounts/signup/", NEWCOMER)
    assert answer.status_code == 302
    user = User.objects.get(email="vera@example.org")
    made = user.memberships.get().organisation
    assert (made.name, made.currency, made.period_timezone) == ("Vera Power", "EUR", "Europe/Berlin")
    assert (user.name, user.time_zone) == ("Vera", "Europe/Berlin")
    assert "Vera Power" in text_of(client.get("/home"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("email", "no address"),
        ("password1", "short"),
        ("organisation", ""),
        ("currency", "XXX"),
        ("period_timezone", "Mars/Olympus"),
    ],
)
def test_a_wrong_sign_up_makes_nothing(client: Any, field: str, value: str) -> None:
    answer = client.post("/accounts/signup/", NEWCOMER | {field: value})
    assert answer.status_code == 200
    assert 'class="problem"' in text_of(answer)
    assert not User.objects.filter(email="vera@example.org").exists()
    assert not Organisation.objects.exists()


def test_signing_in_and_out(client: Any, ada: Person) -> None:
    wrong = client.post("/accounts/login/", {"login": ada.user.email, "password": "not it at all"})
    assert "notice tone-danger" in text_of(wrong)
    assert client.post("/accounts/login/", {"login": ada.user.email, "password": PASSWORD}).status_code == 302
    assert client.get("/home").status_code == 200
    assert client.post("/accounts/logout/").status_code == 302
    assert client.get("/home").status_code == 302


# --- settings ------------------------------------------------------------------------------------------------------------
def test_a_project(ada: Person) -> None:
    browser = ada.browser()
    assert browser.post("/projects", {"name": "Vision", "slug": "vision", "department": "Labs"}).status_code == 302
    for wrong in (
        {"name": "Vision", "slug": "vision"},
        {"name": "", "slug": "other"},
        {"name": "X", "slug": "Not A Slug"},
    ):
        answer = browser.post("/projects", wrong)
        assert answer.status_code == 422
        assert 'class="problem"' in text_of(answer)
    assert Project.objects.filter(organisation=ada.organisation).count() == 2
    assert browser.post("/projects/vision", {"name": "Seeing", "department": ""}).status_code == 302
    assert browser.post("/projects/vision", {"do": "archive"}).status_code == 302
    assert Project.objects.get(slug="vision").archived_at is not None


def test_members(ada: Person, ben: Person) -> None:
    browser = ada.browser()
    answer = browser.post("/settings/members", {"do": "invite", "email": "new@example.org", "role": "developer"})
    assert "/invitations/" in text_of(answer)
    assert (
        browser.post("/settings/members", {"do": "invite", "email": "nothing", "role": "developer"}).status_code == 422
    )
    assert (
        browser.post("/settings/members", {"do": "invite", "email": "a@example.org", "role": "king"}).status_code == 422
    )
    assert (
        browser.post("/settings/members", {"do": "invite", "email": ben.user.email, "role": "viewer"}).status_code
        == 409
    )
    assert Invitation.objects.count() == 1
    assert browser.post("/settings/members", {"do": "role", "member": ben.id, "role": "viewer"}).status_code == 302
    assert (
        browser.post("/settings/members", {"do": "remove", "member": ada.id}).status_code == 409
    )  # the last owner stays
    assert browser.post("/settings/members", {"do": "remove", "member": ben.id}).status_code == 302
    assert Membership.objects.filter(organisation=ada.organisation).count() == 1


def test_who_may_not_manage_members_changes_nothing(ada: Person, ben: Person) -> None:
    for data in ({"do": "invite", "email": "x@example.org", "role": "viewer"}, {"do": "remove", "member": ada.id}):
        assert ben.browser().post("/settings/members", data).status_code == 403
    assert Membership.objects.filter(organisation=ada.organisation).count() == 2


def test_an_invitation_is_for_one_person_once(ada: Person, cleo: Person) -> None:
    from portal.accounts.services import members

    made = members.invite(
        organisation=ada.organisation,
        email=cleo.user.email,
        role="viewer",
        by=ada.id,
        by_role=ada.actor.role,
        now=clock.now(),
    )
    path = f"/invitations/{made.token}"
    assert "Moss Lab" in text_of(cleo.browser().get(path))
    assert a_member(ada, "eve@example.org", "viewer").browser().post(path).status_code == 403
    assert cleo.browser().post(path).status_code == 302
    assert cleo.browser().post(path).status_code == 404
    assert cleo.browser().get("/invitations/unknown").status_code == 404


def test_a_key_is_shown_once(ada: Person, ben: Person) -> None:
    browser = ben.browser()
    made = browser.post(
        "/settings/keys", {"do": "make", "name": "nightly", "days": "30", "scopes": ["jobs.run", "work.read"]}
    )
    assert "idw_" in text_of(made)
    key = ApiKey.objects.get()
    assert key.prefix in text_of(browser.get("/settings/keys"))
    assert 'id="new-key"' not in text_of(browser.get("/settings/keys"))
    for wrong in (
        {"name": "", "days": "30", "scopes": ["work.read"]},
        {"name": "x", "days": "30", "scopes": ["money.move"]},
        {"name": "x", "days": "4", "scopes": ["work.read"]},
        {"name": "x", "days": "30"},
    ):
        assert browser.post("/settings/keys", {"do": "make", **wrong}).status_code == 422
    assert ApiKey.objects.count() == 1
    assert browser.post("/settings/keys", {"do": "revoke", "key": key.public_id}).status_code == 302
    assert browser.post("/settings/keys", {"do": "revoke", "key": key.public_id}).status_code == 409


def test_a_secret_is_never_shown(ada: Person, cleo: Person) -> None:
    browser = ada.browser()
    data = {"do": "put", "name": "HUB_TOKEN", "value": "s3cr3t-of-the-test"}
    assert browser.post("/settings/secrets", data).status_code == 302
    page = text_of(browser.get("/settings/secrets"))
    assert "HUB_TOKEN" in page
    assert "s3cr3t-of-the-test" not in page
    assert browser.post("/settings/secrets", data | {"name": "not a name"}).status_code == 422
    assert browser.post("/settings/secrets", data | {"value": ""}).status_code == 422
    assert browser.post("/settings/secrets", data | {"project": "elsewhere"}).status_code == 422
    stored = Secret.objects.get()
    assert cleo.browser().post("/settings/secrets", {"do": "delete", "secret": stored.public_id}).status_code == 404
    assert browser.post("/settings/secrets", {"do": "delete", "secret": stored.public_id}).status_code == 302
    assert not Secret.objects.exists()


def test_the_organisation(ada: Person, ben: Person) -> None:
    values = {
        "name": "Moss Institute",
        "period_timezone": "UTC",
        "tax_id": "91110000",
        "country": "cn",
        "address": "1 Fern Road",
    }
    assert ben.browser().post("/settings/organisation", values).status_code == 403
    assert ada.browser().post("/settings/organisation", values | {"name": ""}).status_code == 422
    assert ada.browser().post("/settings/organisation", values | {"parent": "somebody-elses"}).status_code == 422
    assert ada.browser().post("/settings/organisation", values).status_code == 302
    ada.organisation.refresh_from_db()
    assert (ada.organisation.name, ada.organisation.country) == ("Moss Institute", "CN")


def test_the_profile(ada: Person) -> None:
    good = {"name": "Ada L.", "time_zone": "Asia/Shanghai", "language": "", "theme": "dark"}
    assert ada.browser().post("/settings/profile", good).status_code == 302
    assert ada.browser().post("/settings/profile", good | {"time_zone": "Nowhere"}).status_code == 422
    ada.user.refresh_from_db()
    assert (ada.user.name, ada.user.time_zone, ada.user.theme) == ("Ada L.", "Asia/Shanghai", "dark")


# --- providing -----------------------------------------------------------------------------------------------------------
def onboarding(**values: Any) -> dict[str, Any]:
    zone = a_zone("east", "a")
    return {"zone": zone.id, "core_price": "0.05", "hours_timezone": "UTC", "publish": "on", **values}


def test_the_line_to_paste_is_shown_once(ada: Person) -> None:
    from marketplace.models import Enrolment

    browser = ada.browser()
    answer = browser.post("/provide/add", onboarding(name="moss-9", green="80", hours_from="22:00", hours_to="07:00"))
    assert answer.status_code == 302
    page = browser.get(answer.headers["Location"])
    assert "enroll enr_" in text_of(page)
    token = Enrolment.objects.get()
    assert token.terms["prices"] == {"core": "0.05"}
    assert token.terms["green_ratio"] == "0.8"
    assert token.terms["hours"][0]["from"] == "22:00"
    assert "enr_" not in text_of(ada.browser().get(answer.headers["Location"]))


@pytest.mark.parametrize(
    "wrong",
    [
        {"core_price": "-1"},
        {"core_price": "0.0000001"},
        {"core_price": "NaN"},
        {"core_price": "1e12"},
        {"core_price": ""},
        {"green": "101"},
        {"hours_from": "22:00"},
        {"hours_from": "25:00", "hours_to": "07:00"},
        {"zone": "999999"},
        {"name": "x" * 81},
    ],
)
def test_wrong_terms_make_no_token(ada: Person, wrong: dict[str, str]) -> None:
    from marketplace.models import Node

    answer = ada.browser().post("/provide/add", onboarding(**wrong))
    assert answer.status_code == 422
    assert 'class="problem"' in text_of(answer)
    assert not Node.objects.exists()


def test_an_offer_is_published_repriced_paused_withdrawn(ada: Person, ben: Person) -> None:
    node = a_node(ada, offered=False, now=clock.now())
    browser, path = ada.browser(), f"/provide/nodes/{node.public_id}/publish"
    assert ben.browser().post(path, {"core_price": "0.05", "hours_timezone": "UTC"}).status_code == 403
    assert browser.post(path, {"core_price": "many", "hours_timezone": "UTC"}).status_code == 422
    made = browser.post(path, {"core_price": "0.05", "hours_timezone": "UTC"})
    assert made.status_code == 302
    offer = made.headers["Location"]
    assert browser.post(path, {"core_price": "0.05", "hours_timezone": "UTC"}).status_code == 409
    assert browser.post(offer, {"do": "reprice", "core_price": "-3"}).status_code == 422
    assert browser.post(offer, {"do": "reprice", "core_price": "0.07"}).status_code == 302
    assert "CN¥0.07" in text_of(browser.get(offer))
    assert browser.post(offer, {"do": "resume"}).status_code == 409
    for deed in ("pause", "resume", "withdraw"):
        assert browser.post(offer, {"do": deed}).status_code == 302
    assert browser.post(offer, {"do": "pause"}).status_code == 409


def test_a_node_is_drained_and_retired(ada: Person, cleo: Person) -> None:
    node = a_node(ada, now=clock.now())
    path = f"/provide/nodes/{node.public_id}"
    assert cleo.browser().post(path, {"do": "drain"}).status_code == 404
    for deed, state in (("drain", "draining"), ("undrain", "probing"), ("drain", "draining"), ("retire", "retired")):
        assert ada.browser().post(path, {"do": deed}).status_code == 302
        node.refresh_from_db()
        assert node.state == state
    assert ada.browser().post(path, {"do": "drain"}).status_code == 409


# --- operating -----------------------------------------------------------------------------------------------------------
def test_an_operator_verifies_and_suspends_and_it_is_on_record(staff: Person, ada: Person) -> None:
    browser, target = staff.browser(), ada.organisation.public_id
    for deed in ("verify", "suspend"):
        assert browser.post("/operate/organisations", {"organisation": target, "do": deed}).status_code == 302
    ada.organisation.refresh_from_db()
    assert (ada.organisation.provider_verified, ada.organisation.state) == (True, "suspended")
    assert browser.post("/operate/organisations", {"organisation": target, "do": "suspend"}).status_code == 409
    assert browser.post("/operate/organisations", {"organisation": "org_nobody", "do": "suspend"}).status_code == 404
    trail = text_of(browser.get("/operate/audit", {"deed": "organisation."}))
    assert "organisation.suspend" in trail
    assert ada.browser().post("/operate/organisations", {"organisation": target, "do": "resume"}).status_code == 404


def test_addresses_that_were_made_up(ada: Person) -> None:
    browser = ada.browser()
    assert browser.get("/jobs?cursor=nonsense").status_code == 400
    assert browser.get("/settings/organisation?cursor=W10").status_code == 400
    assert browser.get("/jobs?state=nonsense").status_code == 200
    assert browser.get("/usage?month=1999-01&by=nonsense").status_code == 200
    assert browser.get("/market?region=%27%22&most=abc&green=-5").status_code == 200
