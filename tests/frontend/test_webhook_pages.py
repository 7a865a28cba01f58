"""The pages of webhooks: made, tried, switched off and on, sent again, deleted."""

import pytest

from portal.accounts.models import WebhookDelivery, WebhookEndpoint
from portal.accounts.services import webhooks
from tests.cast import THEN, Person
from tests.portal.accounts.receiver import Receiver

pytestmark = pytest.mark.django_db


def test_from_the_form_to_a_second_sending(ada: Person) -> None:
    browser = ada.browser()
    with Receiver() as receiver:
        made = browser.post("/settings/webhooks", {"url": receiver.url, "types": ["job.done"]})
        endpoint = WebhookEndpoint.objects.get()
        assert "whsec_" in made.content.decode()
        assert "whsec_" not in browser.get("/settings/webhooks").content.decode()
        path = f"/settings/webhooks/{endpoint.public_id}"
        assert browser.post(path, {"do": "test"}).status_code == 302
        webhooks.deliver(now=THEN.replace(year=2100))
        page = browser.get(path).content.decode()
        assert "endpoint.test" in page
        assert "Received" in page
        again = {"do": "resend", "delivery": WebhookDelivery.objects.get().public_id}
        assert browser.post(path, again).status_code == 302
        webhooks.deliver(now=THEN.replace(year=2100))
        assert len(receiver.got) == 2
    browser.post(path, {"do": "disable"})
    assert not WebhookEndpoint.objects.get().enabled
    browser.post(path, {"do": "enable"})
    assert "whsec_" in browser.post(path, {"do": "rotate"}).content.decode()
    browser.post(path, {"do": "delete"})
    assert WebhookEndpoint.objects.count() == 0


def test_what_is_wrong_stands_at_its_field(ada: Person) -> None:
    answer = ada.browser().post("/settings/webhooks", {"url": "ftp://x"})
    assert answer.status_code == 422
    assert "https://" in answer.content.decode()
    webhooks.create(organisation=ada.organisation, url="https://x.org", types=[], by=ada.id, now=THEN)
    assert "already" in ada.browser().post("/settings/webhooks", {"url": "https://x.org"}).content.decode()


def test_a_developer_and_a_stranger_see_none(ada: Person, ben: Person, cleo: Person) -> None:
    made = webhooks.create(organisation=ada.organisation, url="https://x.org", types=[], by=ada.id, now=THEN)
    assert ben.browser().get("/settings/webhooks").status_code == 403
    assert cleo.browser().get(f"/settings/webhooks/{made.endpoint.public_id}").status_code == 404
