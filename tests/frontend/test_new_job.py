"""A new job: form and YAML say the same; what is wrong is told beside it and changes nothing."""

from typing import Any

import pytest
import yaml

from frontend.forms import job as shapes
from portal import clock, softstate
from scheduling.models import Job, Quote
from tests.cast import Person
from tests.factories.market import a_node

pytestmark = pytest.mark.django_db

FORM = {
    "mode": "form",
    "name": "moss",
    "project": "default",
    "run": "echo hi\n",
    "cpus": "1",
    "memory": "1",
    "max_duration": "10m",
}


def text_of(answer: Any) -> str:
    return str(answer.content.decode())


@pytest.fixture
def node(sol: Person) -> Any:
    made = a_node(sol, now=clock.now())
    softstate.put(f"alive:{made.public_id}", int(clock.now().timestamp() * 1000) + 60_000, ttl_ms=60_000)
    return made


@pytest.mark.parametrize("sample", sorted(shapes.SAMPLES))
def test_a_sample_survives_the_form_and_the_yaml(sample: str) -> None:
    spec = shapes.SAMPLES[sample]
    assert not shapes.beyond_the_form(spec)
    form = shapes.JobForm(
        shapes.initial_of(spec) | {"project": "default"}, projects=[("default", "Default")], regions=[], currency="CNY"
    )
    form.trust_the_service()
    again = form.spec()
    again.pop("project")
    assert again == spec
    assert yaml.safe_load(shapes.as_yaml(spec)) == spec


def test_the_live_quote_has_price_time_green_and_transfer(ada: Person, node: Any) -> None:
    answer = ada.browser().post("/jobs/new?part=quote", FORM)
    assert answer.status_code == 200
    page = text_of(answer)
    assert "<html" not in page
    assert node.name in page
    assert 'name="point"' in page
    assert "60\N{NO-BREAK SPACE}%" in page
    assert Quote.objects.count() == 1


def test_an_unfinished_description_is_no_error(ada: Person, node: Any) -> None:
    for data in (
        FORM | {"run": ""},
        FORM | {"cpus": "8..4"},
        {"mode": "yaml", "yaml": "run: [unclosed"},
        {"mode": "yaml", "yaml": ""},
    ):
        assert ada.browser().post("/jobs/new?part=quote", data).status_code == 200
    assert not Job.objects.exists()


def test_submitting_a_quoted_job(ada: Person, node: Any) -> None:
    browser = ada.browser()
    browser.post("/jobs/new?part=quote", FORM)
    quote = Quote.objects.get()
    answer = browser.post("/jobs/new", FORM | {"submit": "1", "quote": quote.public_id, "point": "0"})
    assert answer.status_code == 302
    job = Job.objects.get()
    assert answer.headers["Location"] == f"/jobs/{job.public_id}"
    assert (job.quote_id, job.point, job.name) == (quote.id, 0, "moss")
    again = browser.post("/jobs/new", FORM | {"submit": "1", "quote": quote.public_id, "point": "0"})
    assert again.status_code == 409
    assert Job.objects.count() == 1


def test_wrong_descriptions_are_answered_422_with_every_fault(ada: Person, node: Any) -> None:
    browser = ada.browser()
    answer = browser.post("/jobs/new", FORM | {"submit": "1", "cpus": "8..4", "memory": "lots", "max_duration": "long"})
    assert answer.status_code == 422
    page = text_of(answer)
    for path in ("resources.cpus", "resources.memory", "max_duration"):
        assert path in page
    assert page.count('class="problem"') >= 3
    text = "run: x\nresources: {cpu: 8}\n"
    answer = browser.post("/jobs/new", {"mode": "yaml", "yaml": text, "submit": "1"})
    assert answer.status_code == 422
    assert "resources.cpu" in text_of(answer)
    broken = browser.post("/jobs/new", {"mode": "yaml", "yaml": "run: [unclosed", "submit": "1"})
    assert broken.status_code in (400, 422)
    assert not Job.objects.exists()


def test_a_strangers_quote_is_not_found(ada: Person, cleo: Person, node: Any) -> None:
    ada.browser().post("/jobs/new?part=quote", FORM)
    quote = Quote.objects.get()
    answer = cleo.browser().post("/jobs/new", FORM | {"submit": "1", "quote": quote.public_id, "point": "0"})
    assert answer.status_code == 404
    assert not Job.objects.exists()


def test_form_to_yaml_and_back(ada: Person, node: Any) -> None:
    browser = ada.browser()
    page = text_of(
        browser.post("/jobs/new", FORM | {"to": "yaml", "envs": "EPOCHS=40", "pick": "greenest", "min_green": "50"})
    )
    assert "id_yaml" in page
    for part in ("name: moss", "EPOCHS", "pick: greenest", "min_green"):
        assert part in page
    back = text_of(
        browser.post(
            "/jobs/new", {"mode": "yaml", "to": "form", "yaml": "name: moss\nrun: echo hi\nresources: {cpus: 2}\n"}
        )
    )
    assert 'name="cpus" value="2"' in back
    stays = text_of(browser.post("/jobs/new", {"mode": "yaml", "to": "form", "yaml": "run: x\npriority: 9\n"}))
    assert "priority" in stays
    assert "id_yaml" in stays


def test_a_job_like_another(ada: Person, node: Any) -> None:
    browser = ada.browser()
    browser.post("/jobs/new?part=quote", FORM)
    browser.post("/jobs/new", FORM | {"submit": "1", "quote": Quote.objects.get().public_id, "point": "0"})
    page = text_of(browser.get(f"/jobs/new?like={Job.objects.get().public_id}"))
    assert 'value="moss"' in page
    assert "echo hi" in page
    assert 'name="mode" value="form"' in page


def test_cancel_and_retry(ada: Person, ben: Person, cleo: Person, node: Any) -> None:
    from tests.factories.work import a_job

    job = a_job(ada, now=clock.now())
    browser = ben.browser()
    assert browser.get(f"/jobs/{job.public_id}/cancel").status_code == 405
    assert browser.post(f"/jobs/{job.public_id}/cancel").status_code == 302
    job.refresh_from_db()
    assert job.state == "cancelled"
    assert browser.post(f"/jobs/{job.public_id}/retry").status_code == 409


def test_logs_by_offset(ada: Person, node: Any) -> None:
    import gzip
    from hashlib import sha256

    from scheduling.services import logs
    from tests.factories.work import a_job, an_attempt

    job = a_job(ada, now=clock.now())
    attempt = an_attempt(job, node, now=clock.now())
    data = "first line\nzweite Zeile ü\n".encode()
    logs.append(
        attempt=attempt,
        stream="stdout",
        offset=0,
        packed=gzip.compress(data),
        digest=sha256(data).hexdigest(),
        now=clock.now(),
    )
    browser, path = ada.browser(), f"/jobs/{job.public_id}/log"
    whole = browser.get(path)
    assert whole.content == data
    assert whole.headers["X-Log-Next"] == str(len(data))
    assert whole.headers["Content-Type"].startswith("text/plain")
    rest = browser.get(f"{path}?offset=11")
    assert rest.content == data[11:]
    assert browser.get(f"{path}?offset=9999").content == b""
    for wrong in ("offset=-1", "offset=x", "offset=1e3"):
        assert browser.get(f"{path}?{wrong}").status_code == 400
    assert browser.get(f"{path}?stream=secrets").status_code == 404
    saved = browser.get(f"{path}?download=1")
    assert b"".join(saved.streaming_content) == data
    assert "attachment" in saved.headers["Content-Disposition"]
