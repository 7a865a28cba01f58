"""The market's page of links: configured, measured, late, and unknown ones in words."""

from datetime import timedelta

import pytest

from frontend.presenters import links as present
from portal import clock
from scheduling.domain.linkstate import Measured
from scheduling.models import Link
from scheduling.selectors import beliefs
from scheduling.selectors import links as selectors
from scheduling.services import links
from tests.cast import Person
from tests.factories.market import a_link, a_node

pytestmark = pytest.mark.django_db


def test_the_page_shows_what_is_configured_and_what_is_believed(ada: Person, sol: Person) -> None:
    node = a_node(sol, region="east")
    a_node(sol, region="west")
    a_link("east", "west", rtt_ms=40)
    a_link("west", "east", rtt_ms=40)
    links.report(node=node, sequence=1, links=(("west", Measured(30_000, 50_000, 900)),), beacon=None, now=clock.now())
    html = ada.browser().get("/market?tab=links").content.decode()
    assert "180.0 ms" in html
    assert "measured 30.0 ms, 5.0 % lost" in html
    assert "configured, not measured" in html
    assert "40.0 ms" in html


def test_words_for_late_and_unknown_links(sol: Person) -> None:
    node = a_node(sol, region="east")
    a_node(sol, region="west")
    a_link("east", "west", rtt_ms=40)
    now = clock.now()
    links.report(node=node, sequence=1, links=(("west", Measured(30_000, 0, None)),), beacon=None, now=now)
    belief = beliefs.everything()["east", "west"]
    link = Link.objects.get()
    rows = [
        present.row(selectors.shown(link, now=now + timedelta(seconds=s), belief=belief), link.price_micro_per_gb)
        for s in (0, 22, 120)
    ]
    assert [row["state"] for row in rows] == ["measured", "no news for 22 s", "unknown: no news"]
    assert [row["tone"] for row in rows] == ["success", "warning", "danger"]
    assert rows[2]["delay"] == "–"


def test_without_links_the_page_says_so(ada: Person) -> None:
    assert "No link is configured" in ada.browser().get("/market?tab=links").content.decode()
