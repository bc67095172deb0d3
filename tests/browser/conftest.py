"""A real Chromium, the routers that it looks at, and what must hold for every page that it is shown.

What tests may rely on in the page (ids and data attributes):

  body                       [data-ready] once the first view is drawn
  [data-connection]          "connecting" | "live" | "lost"
  [data-nav="today"] …       links of the menu: today, turns, sessions, savings, targets, callers
  [data-view="today"] …      the view that is shown: those, and turn, session, login
  [data-notice="KIND"]       one line for each notice; [data-hint] for what to do, where that is no command
  [data-theme-switch]        light or dark; <html data-theme="light|dark"> once chosen
  [data-keys]                the list of keys (opened by "?" or [data-keys-open])
  #login, #login-key, [data-login-error], [data-logout]
  [data-scope="all|alone|ledger"]   whose turns are shown, where there are several routers
  [data-choice="1h|24h|7d|30d"] the time range of all views, [data-chip="caller|client|target|tier|outcome|from"] what is filtered by,
  [data-by="caller|client|target"]  a name that filters, [data-copy="TEXT"], [data-scrolls] where a table scrolls
  Today:     [data-card="spent|saved|fast|redone|errors"], [data-bars="spent|turns"] with [data-bar="DAY"],
             [data-group="caller|target|client"] with [data-name], [data-own-budget]
  Turns:     [data-row="ID"] by the id of the turn's first call, [data-row-link], [data-replica="NAME"] of another router, [data-mark="TIER"],
             [data-filter], [data-choice="fast"|"deep"|"asks"|""], [data-pause], [data-running="ID"], [data-clock], [data-words],
             [data-outcome], [data-more], [data-missed], [data-again], [data-older], [data-empty],
             [data-job="STATE"] with [data-job-result], [data-job-cancel], [data-result]
  Turn:      [data-turn="ID"], [data-call-shown="ID"], [data-hop-of="ID"], [data-call="ID"], [data-of-turn="ID"], [data-of-job="ID"], [data-why],
             [data-evidence="POLICY"], [data-estimate="fast|deep"] with [data-part="wait|work"] and [data-estimate-says], [data-flip],
             [data-attempt], [data-wrong="fast|deep"], [data-marked="TIER"], [data-unmark], [data-strip] with [data-block="ID"],
             [data-elsewhere="NAME"] for a turn of another router
  Session:   [data-session="ID"], [data-strip], [data-block="ID"], [data-hop="up|down"], [data-interrupt], [data-row="ID"]
  Targets:   [data-target="NAME"], [data-state], [data-plot="ttft|speed"]
  Savings:   [data-sentence], [data-figure="NAME"], [data-sure], [data-turns], [data-behind="redone|saved"] with [data-behind-row="ID"]
  Callers:   [data-caller="NAME"], [data-budget="day|month"]
"""

from collections.abc import Iterator

import pytest
import routers
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

FLAGS = """
--disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync --no-sandbox
""".split()
"""Nothing of the browser's own goes to the network. Without a sandbox, since root may not have one: only our own page is shown."""

_PATIENCE_MS = 30_000
expect.set_options(timeout=_PATIENCE_MS)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--chromium", default="chromium", help="where Chromium is")
    parser.addoption("--screenshots", metavar="FOLDER", help="keep a picture of every view, theme and width there")


@pytest.fixture(scope="session")
def browser(pytestconfig: pytest.Config) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=pytestconfig.getoption("--chromium"), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[routers.Router]:
    """A router without keys, which has served a session that changed its tier."""
    router = routers.Router(tmp_path_factory.mktemp("open"))
    session = {"x_tandem_session": "afternoon"}
    router.ask("fix the typo in README.md", **session)
    router.ask(routers.LONG, **session)
    router.ask("rename the variable", x_tandem_tier="fast", **session)
    yield router
    router.stop()


@pytest.fixture(scope="session")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[routers.Router]:
    """A router that needs keys: `ada` is an admin and may force both tiers, `bob` has the usual rights.

    Each has had one call served, in a session that both call by the same name.
    """
    folder = tmp_path_factory.mktemp("keyed")
    keys = routers.write_keys(folder, ada="admin: true, may_force: [fast, deep]", bob="daily_usd: 5")
    router = routers.Router(folder, "keys: {file: keys.yaml}\n")
    router.keys = keys
    for name in ("bob", "ada"):
        asked = router.ask(f"fix the typo of {name}", authorization=f"Bearer {keys[name]}", x_tandem_session="same")
        router.asked[name] = asked
    yield router
    router.stop()


@pytest.fixture(scope="session")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[routers.Router]:
    """A router with one turn of every kind. `asked` has the call to open for each."""
    folder = tmp_path_factory.mktemp("kinds")
    keys = routers.write_keys(folder, ada="admin: true, may_force: [fast, deep], may_delegate: true", bob="daily_usd: 0.000001")
    router = routers.Router(folder, "keys: {file: keys.yaml}\n")
    router.keys = keys
    routers.ask_every_kind(router)
    yield router
    router.stop()


class Watched:
    """A page, and everything that its console, its scripts and its policy complained of."""

    def __init__(self, context: BrowserContext) -> None:
        self.complaints: list[str] = []
        self.hosts: set[str] = set()
        self.page: Page = context.new_page()
        self.page.set_default_timeout(_PATIENCE_MS)
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(f"a script failed: {error}"))
        self.page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"a dialog opened: {dialog.message}") or dialog.dismiss())

    def _hear(self, message) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")


@pytest.fixture(params=["light"])
def theme(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def context(browser: Browser, theme: str) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme=theme)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page of a new browser. The test fails if anything in it is reported as an error, or comes from elsewhere."""
    watched = Watched(context)
    yield watched.page
    allowed = "Failed to load resource: the server responded with a status of 4"
    refusals = request.node.get_closest_marker("refusals") is not None
    assert [said for said in watched.complaints if not (refusals and allowed in said)] == []
    assert len(watched.hosts) <= 1, watched.hosts
