"""Every page renders for the right role, says no to the wrong one, and hides other organisations' things."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from django.test import Client
from django.urls import get_resolver

from frontend import urls
from portal import clock
from portal.accounts.services import webhooks
from tests.cast import Person, a_member
from tests.factories.market import a_node, an_enrolled, an_invited
from tests.factories.work import a_job, an_attempt

pytestmark = pytest.mark.django_db

INLINE_SCRIPT = re.compile(r"<script(?![^>]*\bsrc=)(?![^>]*type=\"application/json\")[^>]*>", re.IGNORECASE)
STYLE = re.compile(r"<[^>]+\sstyle\s*=", re.IGNORECASE)
HANDLER = re.compile(r"<[^>]+\son[a-z]+\s*=", re.IGNORECASE)
POLICY = "default-src 'self'"


@pytest.fixture
def things(ada: Person, sol: Person) -> dict[str, str]:
    """One of everything that a page shows: name of the URL's part → its id."""
    now = clock.now()
    node = a_node(ada, gpus=1, virtual=True, now=now)
    job = a_job(ada, name="moss", state="running", now=now)
    an_attempt(job, node, now=now, proven_until=now)
    a_job(ada, name="waits", now=now)
    return {
        "node": node.public_id,
        "invited": an_invited(ada, now=now).node.public_id,
        "probing": an_enrolled(ada, now=now).node.public_id,
        "offer": node.offers.get().public_id,
        "job": job.public_id,
        "project": ada.project.slug,
        "webhook": a_told_endpoint(ada, now).public_id,
    }


def a_told_endpoint(of: Person, now: datetime) -> Any:
    """A webhook that was told of something, and has failed once."""
    made = webhooks.create(organisation=of.organisation, url="http://127.0.0.1:9/x", types=[], by=of.id, now=now)
    webhooks.test(endpoint=made.endpoint, by=of.id, now=now)
    webhooks.deliver(now=now)
    return made.endpoint


def pages(things: dict[str, str]) -> list[str]:
    """Every page of a tenant and provider that can be opened by its address."""
    return [
        "/home",
        "/find?q=moss",
        "/market",
        "/capacity",
        "/market?tab=links",
        "/market?tab=reference",
        "/market?region=east&most=0.5&green=10&order=green_ratio-",
        "/market?region=nowhere",
        "/jobs",
        "/jobs?state=running",
        "/jobs?state=failed",
        "/jobs/new",
        "/jobs/new?sample=hello",
        "/jobs/new?sample=card&mode=yaml",
        f"/jobs/new?like={things['job']}",
        *(
            f"/jobs/{things['job']}?tab={tab}"
            for tab in ("overview", "log", "cost", "why", "outputs", "events", "spec")
        ),
        f"/jobs/{things['job']}/log",
        "/usage",
        "/usage?by=job",
        "/invoices",
        "/payments",
        "/provide/earnings",
        "/provide/payouts",
        "/wallet",
        "/budgets",
        "/projects",
        f"/projects/{things['project']}",
        "/provide/add",
        f"/provide/add/{things['invited']}",
        f"/provide/add/{things['probing']}",
        "/provide/nodes",
        f"/provide/nodes/{things['node']}",
        "/provide/offers",
        f"/provide/offers/{things['offer']}",
        f"/provide/nodes/{things['probing']}/publish",
        "/settings/members",
        "/settings/keys",
        "/settings/secrets",
        "/settings/webhooks",
        f"/settings/webhooks/{things['webhook']}",
        "/settings/organisation",
        "/settings/profile",
        "/organisations/new",
    ]


PUBLIC = ("/", "/accounts/login/", "/accounts/signup/", "/accounts/password/reset/")
OPERATOR = (
    "/operate/fleet",
    "/operate/queue",
    "/operate/jobs",
    "/operate/organisations",
    "/operate/audit",
    "/operate/rail",
    "/operate/bank",
    "/operate/invoices",
)


def clean(path: str, answer: Any) -> None:
    """What holds for every page: the policy is there, nothing inline, nothing untranslated into markup."""
    assert POLICY in answer.headers["Content-Security-Policy"], path
    if not answer.headers["Content-Type"].startswith("text/html"):
        return
    html = answer.content.decode()
    for pattern in (INLINE_SCRIPT, STYLE, HANDLER):
        assert not pattern.search(html), (path, pattern.pattern)
    assert "{{" not in html, path
    assert "{%" not in html, path


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_an_owner_opens_every_page(ada: Person, things: dict[str, str], language: str) -> None:
    browser = ada.browser()
    browser.cookies["django_language"] = language
    for path in pages(things):
        answer = browser.get(path)
        assert answer.status_code == 200, (path, answer.status_code)
        clean(path, answer)


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_public_pages_are_for_everybody(client: Client, db: None, language: str) -> None:
    client.cookies["django_language"] = language
    for path in PUBLIC:
        answer = client.get(path)
        assert answer.status_code == 200, path
        clean(path, answer)


def test_an_operator_opens_the_operators_pages_and_nobody_else_knows_them(
    staff: Person, ada: Person, things: dict[str, str]
) -> None:
    operator, owner = staff.browser(), ada.browser()
    for path in OPERATOR:
        answer = operator.get(path)
        assert answer.status_code == 200, path
        clean(path, answer)
        assert owner.get(path).status_code == 404, path


def test_without_signing_in_every_page_leads_to_the_sign_in(
    client: Client, ada: Person, things: dict[str, str]
) -> None:
    for path in [*pages(things), *OPERATOR]:
        answer = client.get(path)
        assert answer.status_code == 302, path
        assert answer.headers["Location"].startswith("/accounts/login/?next="), path


def test_a_strangers_things_do_not_exist(cleo: Person, ada: Person, things: dict[str, str]) -> None:
    stranger = cleo.browser()
    for path in (
        f"/jobs/{things['job']}",
        f"/jobs/{things['job']}/log",
        f"/jobs/new?like={things['job']}",
        f"/provide/nodes/{things['node']}",
        f"/provide/add/{things['invited']}",
        f"/provide/nodes/{things['node']}/publish",
        f"/provide/offers/{things['offer']}",
        "/invoices/inv_01JZZZZZZZZZZZZZZZZZZZZZZZ",
    ):
        answer = stranger.get(path)
        assert answer.status_code == 404, path
        clean(path, answer)
    for path in (f"/jobs/{things['job']}/cancel", f"/jobs/{things['job']}/retry"):
        assert stranger.post(path).status_code == 404, path
    assert stranger.post("/switch", {"organisation": ada.organisation.slug}).status_code == 404


@pytest.mark.parametrize(
    ("role", "path"),
    [
        ("billing", "/jobs/new"),
        ("viewer", "/jobs/new"),
        ("billing", "/provide/add"),
        ("developer", "/usage"),
        ("developer", "/invoices"),
        ("developer", "/projects/default"),
        ("developer", "/provide/nodes/{node}/publish"),
        ("billing", "/jobs/{job}/log"),
    ],
)
def test_a_member_without_the_deed_is_told_who_can_grant_it(
    ada: Person, things: dict[str, str], role: str, path: str
) -> None:
    member = a_member(ada, f"{role}@example.org", role)
    answer = member.browser().get(path.format(**things))
    assert answer.status_code == 403
    assert "Ada" in answer.content.decode()
    clean(path, answer)


def test_a_members_menu_has_only_what_the_role_opens(ada: Person, things: dict[str, str]) -> None:
    billing = a_member(ada, "bea@example.org", "billing").browser().get("/home").content.decode()
    assert 'href="/invoices"' in billing
    assert 'href="/provide/add"' not in billing
    assert 'href="/operate/fleet"' not in billing


def test_parts_are_fragments_and_unknown_parts_are_404(ada: Person, things: dict[str, str]) -> None:
    browser = ada.browser()
    for part in ("head", "waiting", "attempts", "cost", "outputs", "events", "why"):
        answer = browser.get(f"/jobs/{things['job']}?part={part}")
        assert answer.status_code == 200, part
        assert "<html" not in answer.content.decode(), part
        assert f'id="part-{part}"' in answer.content.decode(), part
    for part in ("nothing", "../base", "Head", "x" * 40):
        assert browser.get(f"/jobs/{things['job']}", {"part": part}).status_code == 404, part


def test_htmx_gets_a_fragment_of_an_error_not_a_page(ada: Person) -> None:
    answer = ada.browser().get("/jobs/job_01JZZZZZZZZZZZZZZZZZZZZZZZ", headers={"HX-Request": "true"})
    assert answer.status_code == 404
    assert "<html" not in answer.content.decode()
    assert answer.headers["X-Request-Id"] in answer.content.decode()


def test_every_error_page_says_what_to_do_and_names_the_request(rf: Any, client: Client, db: None) -> None:
    from frontend.views import errors

    request = rf.get("/somewhere", headers={"accept": "text/html"})
    request.request_id, request.user = "req-of-the-test", None
    for answer in (
        errors.not_found(request),
        errors.forbidden(request),
        errors.bad_request(request),
        errors.csrf_failed(request),
        errors.broken(request),
    ):
        html = answer.content.decode()
        assert answer.status_code in (400, 403, 404, 500)
        assert "req-of-the-test" in html
        assert "Traceback" not in html
    missing = client.get("/no/such/page")
    assert missing.status_code == 404
    assert missing.headers["X-Request-Id"] in missing.content.decode()


def test_every_page_of_the_url_list_is_in_this_test(things: dict[str, str], ada: Person) -> None:
    """A page that nobody opens here is a page that nobody looked at."""
    resolver = get_resolver()
    opened = {resolver.resolve(path.split("?")[0]).url_name for path in [*pages(things), *OPERATOR, "/"]}
    only_by_post_or_elsewhere = {
        "preferences", "switch", "invitation", "job_cancel", "job_retry", "job_output",
        "invoice", "invoice_verify", "invoice_line", "invoice_document",
        "invoice_pay", "payment", "payment_cards", "payment_top_up", "hosted_page", "payout", "payout_onboard", "rail_refund",
    }  # fmt: skip
    assert {pattern.name for pattern in urls.urlpatterns} - opened == only_by_post_or_elsewhere


def test_a_page_works_without_the_bundle(ada: Person, things: dict[str, str], settings: Any, tmp_path: Any) -> None:
    settings.CONSOLE_DIST = tmp_path
    html = ada.browser().get("/home").content.decode()
    assert "make frontend" in html
    assert "console/assets" not in html


@pytest.fixture
def posted(ada: Person) -> Callable[..., Any]:
    browser = ada.browser()
    return lambda path, **data: browser.post(path, data)


def test_language_theme_and_next_stay_inside(ada: Person) -> None:
    browser = ada.browser()
    answer = browser.post(
        "/preferences", {"language": "zh-hans", "theme": "dark", "next": "https://elsewhere.example/"}
    )
    assert answer.headers["Location"] == "/"
    assert answer.cookies["django_language"].value == "zh-hans"
    ada.user.refresh_from_db()
    assert (ada.user.language, ada.user.theme) == ("zh-hans", "dark")
    assert 'lang="zh-Hans"' in browser.get("/home").content.decode()
    odd = browser.post("/preferences", {"language": "tlh", "theme": "neon", "next": "/jobs"})
    assert odd.headers["Location"] == "/jobs"
    assert not odd.cookies
    for strange in ("NaN", "-1", "//elsewhere.example", "javascript:alert(1)", "漢"):  # no page has such a name
        assert browser.post("/preferences", {"theme": "dark", "next": strange}).headers["Location"] == "/"


@pytest.mark.parametrize(
    ("path", "field"), [("/settings/keys", "key"), ("/settings/secrets", "secret"), ("/settings/members", "user"), ("/switch", "organisation")]
)  # fmt: skip
def test_a_null_character_in_a_form_is_a_bad_request(ada: Person, path: str, field: str) -> None:
    """Some fields are ids that no form checks."""
    assert ada.browser().post(path, {field: "a\x00b", "deed": "revoke"}).status_code == 400
