"""The two journeys, walked in a real browser with live updates, in both languages, without a console error.

Provider: sign up → a token with terms → one pasted line → checks turn green by themselves → listed and published.
Tenant: first job in at most four clicks → its price before → running, log, cost live → outputs → why here.
Nodes are `FakeAgent`s: the real wire and the real machine over HTTP, without processes.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from portal import clock
from tests.cast import PASSWORD, Person
from tests.fakes.agent import FakeAgent, http_call, virtual_cards

pytestmark = pytest.mark.e2e

LIVE_MS = 10_000
"""A change is on the screen within this time; the machine of the test is busy with other things too."""
WORDS = {
    "en": {
        "offer": "Offer a machine", "sign_up": "Sign up", "line": "Make the line to paste", "waiting": "Waiting for your node …",
        "listed": "Your node is listed", "published": "Published", "see_offer": "See the offer", "sample": "Try the sample job",
        "submit": "Submit the job", "queued": "Queued", "running": "Running", "done": "Done", "why": "Why here", "cost": "Cost",
        "outputs": "Outputs", "download": "Download", "cancel": "Cancel job", "cancelled": "Cancelled", "log": "Log",
        "why_not": "Why not there", "cores": "Processor cores", "home": "Home", "sign_in": "Sign in", "email": "Email",
        "password": "Password", "organisation": "Name of the organisation", "core_price": "Price per core-hour, CNY",
        "waits": "Why is it waiting?", "offline": "No live connection",
    },
    "zh-hans": {
        "offer": "提供机器", "sign_up": "注册", "line": "生成要粘贴的命令", "waiting": "正在等待您的节点……",
        "listed": "您的节点已上架", "published": "已发布", "see_offer": "查看挂牌", "sample": "试用示例作业",
        "submit": "提交作业", "queued": "排队中", "running": "运行中", "done": "已完成", "why": "为何在此", "cost": "费用",
        "outputs": "输出", "download": "下载", "cancel": "取消作业", "cancelled": "已取消", "log": "日志",
        "why_not": "为何不选那里", "cores": "处理器核", "home": "首页", "sign_in": "登录", "email": "电子邮箱",
        "password": "密码", "organisation": "组织名称", "core_price": "每核时价格（CNY）",
        "waits": "为何在等待？", "offline": "实时连接已断开",
    },
}  # fmt: skip
LANGUAGES = tuple(WORDS)


@pytest.fixture(autouse=True)
def _with_celery(live: str) -> None:
    """Outbox nudges go to this run's Valkey."""
    import portal.celery  # noqa: F401


def aside(deed: Callable[[], Any]) -> Any:
    """Do it in a thread of its own, as a worker would: sync Playwright keeps a loop running in this one."""

    def closed() -> Any:
        from django.db import connections

        try:
            return deed()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(closed).result()


def work() -> None:
    """What the workers do: relay promises, one cycle of placement."""
    from portal.outbox.services import relay
    from scheduling.services import cycle

    def once() -> None:
        relay(now=clock.now())
        cycle.run(now=clock.now())
        relay(now=clock.now())

    aside(once)


def a_listed_agent(url: str, of: Person, name: str, *, region: str, terms: dict[str, Any]) -> FakeAgent:
    """A node that joined, passed its checks and is on offer."""
    from tests.factories.market import an_invited

    invited = aside(lambda: an_invited(of, region=region, name=name, now=clock.now(), terms=terms))
    agent = FakeAgent(http_call(url))
    agent.hardware = agent.hardware.__class__(**{**agent.hardware.__dict__, "devices": virtual_cards(1)})
    agent.enroll(invited.token)
    agent.sync()
    agent.inventory()
    work()
    agent.sync()
    return agent


class Herd:
    """Nodes that keep syncing by themselves, as real ones do; `lock` while the test makes one of them do something."""

    def __init__(self, agents: list[FakeAgent]) -> None:
        self.agents = agents
        self.silent: set[FakeAgent] = set()
        self.lock = threading.RLock()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._keep_on, daemon=True)

    def _keep_on(self) -> None:
        while not self.over.wait(0.4):
            for agent in self.agents:
                with self.lock:
                    if agent not in self.silent:
                        agent.sync()

    def runs_on(self, agent: FakeAgent, ms: int = 1_500) -> None:
        """The jobs of a node run on for a while (less than its deadline after a fresh sync)."""
        agent.sync()
        agent.pass_time(ms)

    def holder(self) -> tuple[FakeAgent, str]:
        """The node that took the job, and the attempt."""
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline:
            for agent in self.agents:
                if agent.jobs and agent not in self.silent:
                    return agent, next(iter(agent.jobs))
            time.sleep(0.1)
        raise AssertionError("no node took the job")


@pytest.fixture
def market(live: str, sol: Person) -> Iterator[Herd]:
    """Three nodes of one provider: a cheap one, a green one, a middle one."""
    offers = [("thrift", "east", "0.04", "0.2"), ("meadow", "north", "0.20", "1"), ("middle", "west", "0.10", "0.6")]
    herd = Herd(
        [
            a_listed_agent(
                live, sol, name, region=region, terms={"prices": {"core": core, "card": "2.00"}, "green_ratio": green}
            )
            for name, region, core, green in offers
        ]
    )
    herd.thread.start()
    time.sleep(0.6)
    yield herd
    herd.over.set()
    herd.thread.join(timeout=10)


@pytest.fixture
def expect() -> Callable[..., Any]:
    from playwright.sync_api import expect

    expect.set_options(timeout=LIVE_MS)
    return expect


def state(page: Any, word: str) -> Any:
    return page.locator("#part-head .state", has_text=word)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_provider(live: str, open_as: Any, expect: Any, lang: str, db: None) -> None:
    from tests.factories.market import a_zone

    aside(lambda: a_zone("east", "a"))
    words = WORDS[lang]
    page = open_as(None, lang=lang)
    page.goto("/")
    page.get_by_role("link", name=words["offer"]).click()
    page.locator("#id_email").fill("vera@example.org")
    page.locator("#id_password1").fill(PASSWORD)
    page.get_by_label(words["organisation"]).fill("Vera Power")
    page.get_by_role("button", name=words["sign_up"]).click()

    page.get_by_label(words["core_price"], exact=True).fill("0.05")
    page.get_by_role("button", name=words["line"]).click()  # 1
    expect(page.get_by_role("heading", name=words["waiting"])).to_be_visible()
    line = page.locator("#paste-line").inner_text()
    agent = FakeAgent(http_call(live))
    agent.enroll(re.search(r"enr_[0-9a-z]+", line).group())  # type: ignore[union-attr]

    work()
    expect(page.locator(".steps-list > li").first.locator(".tone-success")).to_be_visible()
    agent.sync()
    agent.inventory()
    work()
    expect(page.locator(".steps-list .step-mark.tone-success")).to_have_count(4)
    expect(page.get_by_role("heading", name=words["listed"])).to_be_visible()
    work()
    page.get_by_role("link", name=words["see_offer"]).click()  # 2
    expect(page.locator(".state", has_text=words["published"]).first).to_be_visible()
    assert page.locator("html").get_attribute("lang") == {"en": "en", "zh-hans": "zh-Hans"}[lang]


def signed_in(page: Any, who: Person, words: dict[str, str]) -> None:
    page.goto("/accounts/login/?next=/home")
    page.locator("#id_login").fill(who.user.email)
    page.locator("#id_password").fill(PASSWORD)
    page.locator("form[action*=login] button[type=submit]").last.click()


@pytest.mark.parametrize("lang", LANGUAGES)
def test_tenant(live: str, open_as: Any, expect: Any, lang: str, ada: Person, market: Herd) -> None:
    words = WORDS[lang]
    page = open_as(None, lang=lang)
    signed_in(page, ada, words)
    begun = time.monotonic()
    page.get_by_role("link", name=words["sample"]).click()  # 1
    points = page.locator("#part-quote tbody tr")
    expect(points.first).to_be_visible()
    assert points.count() >= 2
    expect(page.locator("#part-quote")).to_contain_text("¥")
    page.get_by_role("button", name=words["submit"]).click()  # 2
    expect(state(page, words["queued"])).to_be_visible()

    work()
    expect(page.locator("#part-attempts tbody tr")).to_have_count(1)
    agent, attempt = market.holder()
    expect(state(page, words["running"])).to_be_visible()
    assert time.monotonic() - begun < 60, "the first job runs within a minute"

    with market.lock:
        agent.write(attempt, "Hello from the node\n\x1b[32mgreen words\x1b[0m\n")
    expect(page.locator("log-view")).to_contain_text("Hello from the node")
    expect(page.locator("log-view .ansi-green")).to_have_text("green words")
    time.sleep(1.5)
    with market.lock:
        market.runs_on(agent)
        agent.report_usage()
    expect(page.locator("#part-cost")).to_contain_text(words["cores"])
    with market.lock:
        agent.jobs[attempt].files["greeting"] = b"hello\n"
        agent.finish(attempt)
    work()
    expect(state(page, words["done"])).to_be_visible()
    expect(page.locator("#part-outputs")).to_contain_text("greeting")
    with page.expect_download() as download:
        page.locator("#part-outputs a").click()
    assert download.value.path().read_bytes() == b"hello\n"

    page.get_by_role("link", name=words["why"], exact=True).click()
    expect(page.get_by_text(words["why_not"])).to_be_visible()
    expect(page.locator("#part-why tbody tr").first).to_be_visible()


def test_cost_so_far_is_the_coming_invoice(live: str, open_as: Any, expect: Any, ada: Person, market: Herd) -> None:
    """The figure on the job's page is the figure of the month's invoice, to the cent."""
    page = open_as(ada)
    page.goto("/jobs/new?sample=card")
    expect(page.locator("#part-quote tbody tr").first).to_be_visible()
    page.get_by_role("button", name="Submit the job").click()
    work()
    agent, attempt = market.holder()
    expect(state(page, "Running")).to_be_visible()
    time.sleep(1.5)
    with market.lock:
        market.runs_on(agent)
        agent.finish(attempt)
    work()
    expect(state(page, "Done")).to_be_visible()
    expect(page.locator("#part-cost")).to_contain_text("virtual card")
    shown = page.locator("#part-cost tfoot td").inner_text()
    page.goto("/invoices")
    assert page.locator("#part-upcoming tfoot td").last.inner_text() == shown


def test_why_it_waits_and_cancel(live: str, open_as: Any, expect: Any, ada: Person, market: Herd) -> None:
    page = open_as(ada)
    page.goto("/jobs/new?mode=yaml")
    page.locator("#id_yaml").fill("name: too-large\nrun: 'true'\nmax_price: 1\nresources: {cpus: 900}\n")
    expect(page.locator("#part-quote")).to_contain_text("No node fits now")
    page.locator("#part-quote button[name=submit]").click()
    work()
    expect(page.get_by_role("heading", name="Why is it waiting?")).to_be_visible()
    expect(page.locator("#part-waiting")).to_contain_text("Too few free cores")
    page.locator("#part-head summary", has_text="Cancel job").click()
    page.get_by_role("button", name="Yes, cancel it").click()
    expect(state(page, "Cancelled")).to_be_visible()


def test_a_lost_node_is_seen_and_costs_nothing(live: str, open_as: Any, expect: Any, ada: Person, market: Herd) -> None:
    """The node goes silent for good: the page shows it, a second attempt, and the line of 0, without a reload."""
    from scheduling.services import recovery

    page = open_as(ada)
    page.goto("/jobs/new?sample=hello")
    # The dearest point: a second attempt may cost as much, so there is room for one.
    page.locator("#part-quote tbody tr", has_text="meadow").locator("input[type=radio]").check()
    page.get_by_role("button", name="Submit the job").click()
    work()
    agent, _attempt = market.holder()
    expect(state(page, "Running")).to_be_visible()
    time.sleep(1.5)
    with market.lock:
        market.runs_on(agent)
        agent.report_usage()
        market.silent.add(agent)
    deadline = time.monotonic() + 30
    while page.locator("#part-attempts tbody tr").count() < 2 and time.monotonic() < deadline:
        aside(lambda: recovery.sweep(now=clock.now()))
        work()
        page.wait_for_timeout(300)
    expect(page.locator("#part-attempts tbody tr")).to_have_count(2)
    expect(page.locator("#part-attempts")).to_contain_text("The node went silent")
    expect(page.locator("#part-cost")).to_contain_text("costs nothing")


def test_a_lost_socket_is_said_and_survived(live: str, open_as: Any, expect: Any, ada: Person) -> None:
    """Banner within five seconds, polling meanwhile; back without a reload, and what happened meanwhile is there."""
    from tests.factories.work import a_job

    page = open_as(ada)
    sockets: list[Any] = []
    allowed = True

    def routed(socket: Any) -> None:
        if not allowed:
            socket.close()
            return
        socket.connect_to_server()
        sockets.append(socket)

    page.route_web_socket(re.compile(r"/ws/"), routed)
    page.goto("/home")
    expect(page.locator("#part-now")).to_be_visible()
    banner = page.locator("#connection-lost")
    expect(banner).to_be_hidden()
    allowed = False
    for socket in sockets:
        socket.close()
    expect(banner).to_be_visible(timeout=5_000)
    aside(lambda: a_job(ada, name="while-away", now=clock.now()))
    allowed = True
    expect(banner).to_be_hidden(timeout=20_000)
    expect(page.locator("#part-now")).to_contain_text("while-away")
