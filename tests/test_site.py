"""The docs site: every page is in its order, reads there as it does in the repository, and builds without a warning."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
ITEM = re.compile(r"(?:[-*]|\d+\.) ")


def pages_in(entries: object) -> Iterator[str]:
    """The pages of a nav, at any depth."""
    if isinstance(entries, str):
        yield entries
    else:
        for entry in entries.values() if isinstance(entries, dict) else entries:
            yield from pages_in(entry)


PROJECT = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]
LISTS = {"how-it-works": ROOT / "CONTRIBUTING.md", "decisions": DOCS / "decisions" / "README.md"}
"""Folders of pages for contributors, which are not in the menu, and the page that lists each."""


def test_every_page_is_in_the_menu_once_or_listed_for_contributors():
    menu = sorted(pages_in(PROJECT["nav"]))
    rest = [page for page in PAGES if str(page.relative_to(DOCS)) not in menu]

    assert menu == [str(page.relative_to(DOCS)) for page in PAGES if page.parent.name not in LISTS]
    listed = {
        (where.parent / link).resolve() for where in LISTS.values() for link in re.findall(r"\]\(([^)#]+)\)", where.read_text())
    }
    assert [page for page in rest if page not in listed and page != LISTS["decisions"]] == []


def test_every_old_address_leads_to_a_page_and_its_heading():
    redirects = PROJECT["plugins"]["redirects"]["redirect_maps"]

    assert len(redirects) >= 50
    for old, new in redirects.items():
        path, _, anchor = new.partition("#")
        assert not (DOCS / old).exists(), old
        assert (DOCS / path).exists(), new
        headings = re.findall(r"^#+ (.+)$", (DOCS / path).read_text(), re.MULTILINE)
        assert not anchor or anchor in {re.sub(r"[^\w-]+", "-", heading.lower()).strip("-") for heading in headings}, new


def headings_of(page: Path) -> list[str]:
    return re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL), re.MULTILINE)


@pytest.mark.parametrize(
    "word",
    [
        *("alerts", "budget", "dashboard", "docker", "install", "milliseconds", "models", "plan", "savings", "stop"),
        *("subscription", "teams", "webhooks"),
    ],
)
def test_a_newcomers_word_is_a_title_or_a_heading_of_a_page_that_the_menu_has(word):
    """The menu is on every page: one click, and one more on the contents of the page."""
    pages = [DOCS / page for page in pages_in(PROJECT["nav"]) if not page.startswith("reference/")]

    assert any(re.search(rf"\b{word}s?\b", heading, re.IGNORECASE) for page in pages for heading in headings_of(page))


def test_the_changelog_can_be_shown_on_the_site():
    """Its page includes it, and a relative link would lead elsewhere there."""
    assert (DOCS / "changelog.md").read_text() == '{% include-markdown "../CHANGELOG.md" %}\n'
    assert re.findall(r"\]\((?!https:)", (ROOT / "CHANGELOG.md").read_text()) == []


def test_a_page_reads_on_the_site_as_it_does_in_the_repository(subtests):
    """The site's Markdown is stricter: what belongs to an item is indented by four, and a list begins after an empty line."""
    for page in PAGES:
        with subtests.test(page=page):
            text = page.read_text()
            assert not re.search(r"^ {1,3}```", text, re.MULTILINE), "indent a block inside a list by four spaces"

            prose = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.MULTILINE | re.DOTALL)
            for paragraph in re.split(r"\n\s*\n", prose):
                first, *rest = paragraph.strip("\n").splitlines() or [""]
                is_list = ITEM.match(first.lstrip()) or first.startswith(" ")
                assert is_list or not any(map(ITEM.match, rest)), f"a list needs an empty line before it: {first[:60]}"


def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("zensical", reason="the docs site's builder is not installed: make setup")
    shutil.copytree(DOCS, tmp_path / "docs")
    for name in ("zensical.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)

    done = subprocess.run([sys.executable, "-m", "zensical", "build", "--strict"], capture_output=True, text=True, cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    built = {path.parent.relative_to(tmp_path / "site") for path in (tmp_path / "site").rglob("index.html")}
    pages = {page.relative_to(DOCS).with_suffix("") for page in PAGES}
    old = {Path(page).with_suffix("") for page in PROJECT["plugins"]["redirects"]["redirect_maps"]}
    texts = [path.read_text() for path in (tmp_path / "site").rglob("*.html")]
    assert [
        text for text in texts if re.search(r"<(?:script|img|link|source)[^>]+(?:src|href|srcset)=\"?(?:https?:)?//", text)
    ] == []
    assert "Before you upgrade" in (tmp_path / "site" / "changelog" / "index.html").read_text()
    assert built == {page.parent if page.name in ("index", "README") else page for page in pages} | old
