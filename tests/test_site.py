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


def test_every_page_is_in_the_order_of_the_site_once():
    settings = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]

    assert sorted(pages_in(settings["nav"])) == [str(page.relative_to(DOCS)) for page in PAGES]


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
    shutil.copy(ROOT / "zensical.toml", tmp_path)

    done = subprocess.run([sys.executable, "-m", "zensical", "build", "--strict"], capture_output=True, text=True, cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((tmp_path / "site").rglob("index.html"))) == len(PAGES)
