"""Who and what for, against the real portal: signing in, organisations, projects, keys, secrets, usage."""

import io
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from portal import clock
from portal.accounts.models import ApiKey, Project, Secret
from tests.client.conftest import Command, Speaker

Speak = Callable[..., Speaker]


@pytest.fixture
def adas(live: Speak, ada: Any) -> Speaker:
    return live(ada)


def test_who_am_i(adas: Command, live: Speak, cleo: Any) -> None:
    said = adas("whoami")
    assert said.exit == 0
    for word in ("ada@example.org", "moss-lab", "jobs.run"):
        assert word in said.out
    assert "cleo@example.org" in live(cleo)("whoami", "--json").out


def test_login_against_the_real_portal(live: Speak, ada: Any) -> None:
    command = live(ada)
    key = ada.key().text
    said = command("login", "--url", command.url, "--key", key, IDLEWILD_KEY="", IDLEWILD_URL="")
    assert (said.exit, "ada@example.org (moss-lab)" in said.out) == (0, True)
    assert command("whoami", IDLEWILD_KEY="", IDLEWILD_URL="").exit == 0


def test_a_wrong_an_expired_and_a_revoked_key_are_201(live: Speak, ada: Any) -> None:
    command = live(ada)
    assert command("whoami", IDLEWILD_KEY="idw_nobody_nothing").exit == 201
    made = ada.key(expires_at=clock.now() + timedelta(hours=1))
    assert command("whoami", IDLEWILD_KEY=made.text).exit == 0
    ApiKey.objects.filter(id=made.key.id).update(expires_at=clock.now() - timedelta(seconds=1))
    assert command("whoami", IDLEWILD_KEY=made.text).exit == 201
    gone = ada.key()
    assert command("key", "delete", gone.key.public_id).exit == 0
    assert command("whoami", IDLEWILD_KEY=gone.text).exit == 201


def test_projects_are_made_shown_and_changed(adas: Command, ada: Any) -> None:
    assert adas("project", "create", "vision", "--name", "Vision", "--department", "Optics").exit == 0
    assert "Optics" in adas("project", "list").out
    assert adas("project", "set", "vision", "--department", "Lenses").exit == 0
    assert "Lenses" in adas("project", "show", "vision").out
    assert Project.objects.get(organisation=ada.organisation, slug="vision").department == "Lenses"


def test_a_project_that_exists_or_has_a_bad_name_is_refused(adas: Command, ada: Any) -> None:
    assert adas("project", "create", "vision").exit == 0
    before = Project.objects.count()
    assert adas("project", "create", "vision").exit in {200, 209}
    said = adas("project", "create", "Not A Slug", "--json")
    assert said.exit == 200
    assert said.lines[-2]["error"]["errors"][0]["path"] == "slug"
    assert Project.objects.count() == before


def test_what_belongs_to_others_is_not_there(live: Speak, ada: Any, cleo: Any) -> None:
    assert live(ada)("project", "create", "vision").exit == 0
    strangers = live(cleo)
    assert strangers("project", "show", "vision").exit == 209
    assert strangers("project", "set", "vision", "--name", "Mine").exit == 209
    assert strangers("org", "show", ada.organisation.slug).exit == 209
    assert strangers("key", "delete", ada.key().key.public_id).exit == 209
    assert "vision" not in strangers("project", "list", "--json").out
    assert Project.objects.get(slug="vision").name == "vision"


def test_a_key_without_the_deed_is_told_so(live: Speak, ada: Any) -> None:
    command = live(ada)
    weak = ada.key(scopes=["work.read"]).text
    said = command("project", "create", "vision", "--json", IDLEWILD_KEY=weak)
    assert (said.exit, said.lines[-2]["error"]["status"]) == (201, 403)


def test_keys_are_made_shown_once_and_listed_without_their_secret(adas: Command) -> None:
    said = adas("key", "create", "laptop", "--scope", "jobs.run", "--json")
    assert said.exit == 0
    text = said.lines[0]["key"]
    assert text.startswith("idw_")
    listed = adas("key", "list", "--json").out
    assert "laptop" in listed
    assert text.split("_")[2] not in listed


def test_secrets_are_set_from_stdin_and_never_shown(adas: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("hush-hush\n"))
    assert adas("secret", "set", "HUB_TOKEN").exit == 0
    listed = adas("secret", "list", "--json").out
    assert "HUB_TOKEN" in listed
    assert "hush" not in listed
    assert adas("secret", "delete", "HUB_TOKEN").exit == 0
    assert Secret.objects.count() == 0
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert adas("secret", "set", "EMPTY").exit == 200


def test_organisations_are_listed_and_shown(adas: Command) -> None:
    assert "moss-lab" in adas("org", "list").out
    assert "Asia/Shanghai" in adas("org", "show", "moss-lab").out


def test_usage_and_invoices_of_a_newcomer_are_empty(adas: Command) -> None:
    assert adas("usage", "--json").lines[0]["total"] == {"amount": "0.00", "currency": "CNY"}
    assert adas("usage", "--month", "2026-13").exit == 200
    assert adas("invoice", "list", "--json").lines[0] == {"items": []}
    assert adas("invoice", "show", "inv_none").exit == 209
    assert adas("invoice", "download", "inv_none").exit == 209


def test_the_portals_sentences_come_in_chinese(adas: Command) -> None:
    said = adas("project", "show", "nowhere", "--lang", "zh")
    assert said.exit == 209
