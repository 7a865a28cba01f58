"""How pages look, as tests: axe finds nothing, nothing scrolls sideways at 320, 768 and 1,400 px, no text is cut or covered,
the keyboard reaches the content first; and one picture of each page and language (`make screens`, docs/screens.md).
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cast import Person
from tests.e2e import world
from tests.e2e.conftest import WIDTHS

pytestmark = pytest.mark.e2e

LIST = Path(__file__).resolve().parents[2] / "docs" / "screens.md"
AXE = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}}
LOOKS = (("en", "light"), ("zh-hans", "dark"), ("en", "dark"), ("zh-hans", "light"))

CUT = """() => [...document.querySelectorAll('main *, header *')].filter(e => {
  const s = getComputedStyle(e);
  const clips = ['hidden', 'clip'].includes(s.overflowX) && s.textOverflow !== 'ellipsis';
  return clips && e.offsetWidth > 2 && e.scrollWidth > e.clientWidth + 1 && !e.closest('.visually-hidden, thead, svg');
}).map(e => e.outerHTML.slice(0, 120))"""
COVERED = """() => {
  const boxes = [];
  const walk = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode, parent = node.parentElement;
    if (!node.data.trim() || parent.closest('.visually-hidden, svg, option, script, thead, noscript, textarea, details:not([open]) > :not(summary)')) continue;
    if (!parent.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const r of range.getClientRects()) if (r.width > 1 && r.height > 1) boxes.push([r.left, r.top, r.right, r.bottom, node]);
  }
  const found = [];
  for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
    const a = boxes[i], b = boxes[j];
    if (a[4] === b[4]) continue;
    const w = Math.min(a[2], b[2]) - Math.max(a[0], b[0]), h = Math.min(a[3], b[3]) - Math.max(a[1], b[1]);
    if (w > 3 && h > 6) found.push(a[4].data.trim().slice(0, 40) + ' / ' + b[4].data.trim().slice(0, 40));
  }
  return found;
}"""


ENGLISH = """() => {
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const text = walk.currentNode.data.trim(), parent = walk.currentNode.parentElement;
    if (parent.closest('script, style, code, pre, textarea, option, .mono, [lang=en], log-view')) continue;
    if (/[A-Za-z]{2,}( [A-Za-z]{2,}){2,}/.test(text)) found.push(text.slice(0, 80));
  }
  return found;
}"""


@pytest.fixture
def ids(live: str, ada: Person, sol: Person, console_guard: Any) -> dict[str, str]:
    from tests.e2e.test_journeys import aside

    return dict(aside(lambda: world.a_world(ada, sol)))


MAIN = {
    "landing",
    "sign-up",
    "home",
    "market",
    "new-job",
    "job",
    "job-waiting",
    "invoice",
    "members",
    "add-node-checks",
    "node",
    "fleet",
}
"""Pages that are looked at in every theme and width; the others in one of each."""


def every(who: dict[str, Person], only: set[str] | None = None) -> Iterator[tuple[str, str, Person | None]]:
    """(name, path, who opens it) of every page, or of some."""
    for name, path, person in _every(who):
        if only is None or name in only:
            yield name, path, person


def _every(who: dict[str, Person]) -> Iterator[tuple[str, str, Person | None]]:
    for group, person in (
        (world.PUBLIC, None),
        (world.TENANT, who["ada"]),
        (world.PROVIDER, who["ada"]),
        (world.OPERATOR, who["staff"]),
    ):
        for name, path in group.items():
            yield name, path, person


def opened(pages: dict[Any, Any], open_as: Any, person: Person | None, **look: Any) -> Any:
    """One page a person and look: opening a page is dearer than going to an address."""
    key = (person.id if person else None, *look.values())
    if key not in pages:
        pages[key] = open_as(person, **look)
    return pages[key]


@pytest.mark.parametrize(("lang", "theme"), LOOKS[:2])
def test_axe_finds_nothing(
    open_as: Any, ids: dict[str, str], ada: Person, staff: Person, lang: str, theme: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    axe, pages, found = Axe(), {}, []
    for name, path, person in every({"ada": ada, "staff": staff}, only=MAIN if theme == "dark" else None):
        page = opened(pages, open_as, person, lang=lang, theme=theme)
        page.goto(world.address(path, ids))
        result = axe.run(page, options=AXE)
        found += [
            f"{name}: {one['id']}: {node['html'][:160]} {node.get('failureSummary', '')[:200]}"
            for one in result.response["violations"]
            for node in one["nodes"][:3]
        ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_scrolls_sideways_is_cut_or_covered(
    open_as: Any, ids: dict[str, str], ada: Person, staff: Person, width: int
) -> None:
    pages, found = {}, []
    for name, path, person in every({"ada": ada, "staff": staff}, only=MAIN if width == 1400 else None):
        page = opened(pages, open_as, person, width=width, lang="zh-hans" if width == 768 else "en")
        page.goto(world.address(path, ids))
        wide = page.evaluate("document.documentElement.scrollWidth")
        if wide > width:
            found.append(f"{name}: {wide} px wide")
        found += [f"{name}: English: {text}" for text in page.evaluate(ENGLISH)] if width == 768 else []
        found += [f"{name}: cut: {text}" for text in page.evaluate(CUT)]
        found += [f"{name}: covered: {text}" for text in page.evaluate(COVERED)]
    assert not found, "\n".join(found)


def test_the_keyboard_meets_the_skip_link_first(open_as: Any, ids: dict[str, str], ada: Person) -> None:
    page = open_as(ada)
    page.goto("/home")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip-link"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Control+k")
    assert page.locator("dialog.sheet").evaluate("dialog => dialog.open")
    page.keyboard.type("moss-cl")
    page.locator("#found a").first.wait_for()
    page.keyboard.press("Escape")
    assert not page.locator("dialog.sheet").evaluate("dialog => dialog.open")


def test_a_live_swap_keeps_focus_and_open_parts(open_as: Any, ids: dict[str, str], ada: Person) -> None:
    """A region that is fetched again does not take what somebody is doing out of their hands."""
    page = open_as(ada)
    page.goto(f"/jobs/{ids['WAITING']}")
    page.locator("#part-head summary").first.click()
    page.locator("#part-head details button").first.focus()
    page.evaluate("document.querySelector('#part-head').dispatchEvent(new CustomEvent('changed'))")
    page.wait_for_timeout(800)
    assert page.evaluate("document.activeElement.closest('#part-head') !== null")
    assert page.locator("#part-head details").first.get_attribute("open") is not None


def test_a_menu_works_on_a_phone(open_as: Any, ids: dict[str, str], ada: Person) -> None:
    page = open_as(ada, width=320, height=640)
    page.goto("/home")
    assert not page.locator("#menu").is_visible()
    page.locator(".menu-button").click()
    page.locator("#menu").get_by_role("link", name="Jobs", exact=True).click()
    page.wait_for_url("**/jobs")


def test_screens(open_as: Any, ids: dict[str, str], ada: Person, staff: Person, tmp_path: Path) -> None:
    """One picture of each page and language, kept where IDLEWILD_SCREENS_DIR says (else only a few, thrown away); the list is always checked."""
    kept = os.environ.get("IDLEWILD_SCREENS_DIR", "")
    target = Path(kept) if kept else tmp_path
    target.mkdir(parents=True, exist_ok=True)
    listed = LIST.read_text()
    pages: dict[Any, Any] = {}
    names = list(every({"ada": ada, "staff": staff}))
    wanted = names if kept else names[::9]
    for name, path, person in wanted:
        for lang in ("en", "zh-hans"):
            page = opened(pages, open_as, person, lang=lang, theme="light")
            page.goto(world.address(path, ids))
            page.wait_for_timeout(300)
            page.screenshot(path=target / f"{name}.{lang}.png", full_page=True)
            assert (target / f"{name}.{lang}.png").stat().st_size > 5_000
    for name, _path, _person in names:
        assert f"`{name}`" in listed, f"docs/screens.md does not list {name}"
