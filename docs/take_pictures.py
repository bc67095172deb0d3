"""Take the pictures of the live page: `make pictures`. A real router with simulated tiers, looked at in a real Chromium.

The days before today are played as well, and then dated back in the ledger.

.cache/venv-browser/bin/python docs/take_pictures.py CHROMIUM
"""

import contextlib
import re
import sqlite3
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, expect, sync_playwright

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "pictures"
sys.path.insert(0, str(HERE.parent / "tests" / "browser"))
from conftest import FLAGS  # noqa: E402  found there
from routers import LONG, Router  # noqa: E402  found there

VIEWPORT = {"width": 1340, "height": 440}
"""A page that is longer is shown whole."""
AFTERNOON = {
    "parser": ["fix the typo in README.md", "rename divide to div", "add a test for an empty file", "thanks"],
    "async": [LONG, "now update the docs of the client", "which tests still fail?"],
    "login": [
        "the login page looks a bit off, can you have a look",
        "make the button blue",
        "add a dark mode to all pages, with tests",
    ],
}
"""What is asked in each session."""
SHOWN = {"today": ("[data-bar]",), "turns": ("[data-row]",), "turn": ("[data-evidence]", "[data-estimate=deep]", "[data-flip]")}
"""What a view has once it is complete."""
CLIENTS = {"parser": "opencode/1.0", "async": "opencode/1.0", "login": "claude-cli/2.0"}
EARLIER = {6: ("login",), 5: ("parser",), 4: ("parser", "async"), 3: ("login", "parser"), 2: ("async",), 1: ("async", "login")}
"""The sessions of the days before."""
TURN = "now update the docs of the client"
"""The one that a picture shows by itself: close to the point at which the tier changes."""


def play_earlier_days(router: Router, ledger: Path) -> None:
    asked = {days: play(router, sessions, f"-{days}").values() for days, sessions in EARLIER.items()}
    with contextlib.closing(sqlite3.connect(ledger)) as database, database:
        for days, names in asked.items():
            database.executemany("UPDATE entries SET at = at - ? * 86400 WHERE id = ?", [(days, name) for name in names])


def play(router: Router, sessions: tuple[str, ...] = tuple(AFTERNOON), of_day: str = "") -> dict[str, str]:
    """Returns the id of every turn, by what was asked."""
    return {
        text: router.ask(text, x_tandem_session=session + of_day, user_agent=CLIENTS[session])
        for session in sessions
        for text in AFTERNOON[session]
    }


def take(browser: Browser, router: Router, address: str, theme: str) -> None:
    view = address.partition("/")[0]
    context = browser.new_context(viewport=VIEWPORT, color_scheme=theme, device_scale_factor=1)
    page = context.new_page()
    page.goto(f"{router.url}/#/{address}")
    expect(page.locator("body")).to_have_attribute("data-ready", re.compile("."))
    expect(page.locator(f"[data-view={view}]")).to_be_visible()
    expect(page.locator("[data-connection]")).to_have_attribute("data-connection", "live")
    expect(page.locator("main [aria-busy=true]")).to_have_count(0)
    for part in SHOWN[view]:
        expect(page.locator(part).first).to_be_visible()
    path = FOLDER / f"{view}-{theme}.png"
    page.screenshot(path=path, full_page=True)
    context.close()
    print(f"wrote {path.relative_to(HERE.parent)}, {path.stat().st_size} bytes")


def main(chromium: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        router = Router(Path(folder))
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        try:
            play_earlier_days(router, Path(folder) / "page.db")
            turn = play(router)[TURN]
            for address in ("today", "turns", f"turn/{turn}"):
                for theme in ("light", "dark"):
                    take(browser, router, address, theme)
        finally:
            browser.close()
            router.stop()


if __name__ == "__main__":
    main(sys.argv[1])
