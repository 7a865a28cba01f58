"""The same key and request is one deed; another request under the key is refused; a running one says so."""

import threading
from datetime import timedelta

import pytest
from django.db import connection

from marketplace.models import Enrolment
from portal import clock
from portal.accounts.models import Project
from portal.api import idempotency
from portal.api.models import IdempotencyKey
from tests.factories.market import a_zone

BODY = {"slug": "vision", "name": "Vision"}


def post(client, body, key="k-1", path="/api/v1/projects"):
    return client.post(path, body, format="json", headers={"Idempotency-Key": key})


def test_again_gives_the_stored_answer(ada):
    client = ada.web()
    first, again = post(client, BODY), post(client, BODY)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert "Idempotent-Replayed" not in first.headers
    assert again.headers["Idempotent-Replayed"] == "true"
    assert Project.objects.filter(slug="vision").count() == 1


def test_spacing_and_order_of_fields_do_not_make_another_request(ada):
    client = ada.web()
    post(client, BODY)
    assert post(client, {"name": "Vision", "slug": "vision"}).headers["Idempotent-Replayed"] == "true"


def test_another_body_or_address_is_a_mismatch(ada):
    client = ada.web()
    post(client, BODY)
    other = post(client, {**BODY, "slug": "sound"})
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_mismatch")
    elsewhere = post(client, BODY, path="/api/v1/organisations")
    assert elsewhere.json()["code"] == "idempotency_mismatch"


def test_while_the_first_runs_the_second_is_told_to_wait(ada):
    client = ada.web()
    post(client, BODY)
    IdempotencyKey.objects.update(state="busy", status=None, body=None)
    answer = post(client, BODY)
    assert (answer.status_code, answer.json()["code"], answer.headers["Retry-After"]) == (409, "idempotency_busy", "1")


def test_a_claim_of_a_dead_process_is_taken_over(ada):
    client = ada.web()
    post(client, {**BODY, "slug": "first"}, key="other")
    IdempotencyKey.objects.create(
        organisation_id=ada.organisation.id,
        key="k-1",
        digest=digest_of(client, BODY),
        started_at=clock.now() - timedelta(minutes=2),
    )
    assert post(client, BODY).status_code == 201


def digest_of(client, body):
    """The digest that the door makes of a request, by making it once under another key and undoing that."""
    post(client, body, key="probe")
    digest = IdempotencyKey.objects.get(key="probe").digest
    Project.objects.filter(slug=body["slug"]).delete()
    return digest


def test_a_refused_request_does_not_use_up_the_key(ada):
    client = ada.web()
    assert post(client, {"slug": "NOT A SLUG"}).status_code == 422
    assert not IdempotencyKey.objects.exists()
    assert post(client, BODY).status_code == 201


def test_keys_of_two_organisations_are_strangers(ada, cleo):
    post(ada.web(), BODY)
    answer = post(cleo.web(), {**BODY, "slug": "else"})
    assert answer.status_code == 201


@pytest.mark.parametrize("key", ["", "ä", "x" * 201, "two words"])
def test_a_key_is_1_to_200_visible_ascii_characters(ada, key):
    assert post(ada.web(), BODY, key=key).status_code == 422


def test_an_answer_with_a_token_is_kept_sealed(sol):
    a_zone()
    client = sol.web()
    body = {"region": "east"}
    first = post(client, body, path="/api/v1/nodes:invite")
    again = post(client, body, path="/api/v1/nodes:invite")
    assert first.status_code == 201, first.content
    assert again.json() == first.json()
    assert Enrolment.objects.count() == 1
    assert first.json()["token"] not in str(IdempotencyKey.objects.get().body)


def test_keys_end_after_thirty_days(ada):
    post(ada.web(), BODY)
    assert idempotency.expire(now=clock.now() + timedelta(days=29)) == 0
    assert idempotency.expire(now=clock.now() + timedelta(days=31)) == 1


@pytest.mark.django_db(transaction=True)
def test_eight_at_once_are_one_deed(ada):
    text = ada.key().text
    answers = []

    def send():
        from rest_framework.test import APIClient

        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
        answers.append(post(client, BODY))
        connection.close()

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    codes = sorted((a.status_code, a.json().get("code")) for a in answers)
    assert {code for code in codes} <= {(201, None), (409, "idempotency_busy")}
    assert (201, None) in codes
    assert Project.objects.filter(slug="vision").count() == 1
