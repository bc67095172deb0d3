"""The page about two tiers: every figure comes out of its script, and its pictures say what they show."""

import importlib
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "decide" / "savings.md"
PICTURES = sorted(re.findall(r"\]\(([\w-]+\.svg)\)", PAGE.read_text()))
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    yield importlib.import_module("draw_time_and_quality")
    for name in ("draw_time_and_quality", "pair_outcomes", "pair_pictures"):
        sys.modules.pop(name, None)


def task(fast: int, deep: int) -> dict[str, str]:
    """A task that fast does in two calls for a cent, and deep in four for four cents."""
    return {"f:ok": f"{fast}", "f:calls": "2", "f:usd": "0.01", "d:ok": f"{deep}", "d:calls": "4", "d:usd": "0.04"}


@pytest.mark.shared
def test_the_page_states_what_the_script_works_out(shared, script):
    blocks, pictures = script.compute(shared / "outcomes")

    assert script.fill(PAGE.read_text(), blocks) == PAGE.read_text(), "run docs/draw_time_and_quality.py FOLDER"
    assert {path.name for path in pictures} == set(PICTURES)
    for path, picture in pictures.items():
        assert path.read_text() == picture, f"{path.name} is older than the script"


@pytest.mark.shared
def test_the_table_of_models_is_what_the_script_works_out(shared, script):
    rows = script.read_rows(shared / "outcomes", script.VERIFIED)

    assert script.TABLE.read_text() == script.write_table(rows), "run docs/draw_time_and_quality.py FOLDER"


def test_no_figure_is_written_by_hand():
    prose = re.sub(r"<!-- figures: .*?<!-- end -->", "", PAGE.read_text(), flags=re.DOTALL)
    prose = re.sub(r"`[^`]*`|\]\([^)]*\)", "", prose)

    assert re.findall(r"[^\n]*\d[^\n]*", prose) == []


def test_the_page_names_its_sources_and_assumptions_and_promises_no_multiple():
    page = PAGE.read_text()

    assert re.search(r"\d+\s*(?:×|x faster|times faster)", page) is None
    for source in ("swe-bench.github.io", "SWE-bench_Pro-os", "terminal-bench-leaderboard"):
        assert source in page
    assert page.index("## What is assumed") < page.index("| fast → deep |")


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_has_a_title_axes_and_its_source_and_needs_nothing_else(name):
    text = (PAGE.parent / name).read_text()

    picture = ElementTree.fromstring(text)
    words = [element.text for element in picture.iter(f"{SVG}text")]

    assert len(picture.find(f"{SVG}title").text) > 20
    assert any(word.startswith("Source: ") and "modelled" in word for word in words)
    assert sum("share of deep" in word for word in words) == 2
    assert len([word for word in words if re.fullmatch(r"[\d.]+", word)]) >= 12
    assert "prefers-color-scheme:dark" in text
    assert re.findall(r"(?:href|url\(|https?://)", text.replace("http://www.w3.org/2000/svg", "")) == []
    assert len(text.encode()) < 40_000


@pytest.mark.parametrize("name", PICTURES)
def test_nothing_is_drawn_outside_its_picture(name):
    picture = ElementTree.fromstring((PAGE.parent / name).read_text())
    _, _, width, height = map(float, picture.get("viewBox").split())

    for element in picture.iter():
        x, y = (float(element.get(a) or element.get(b) or 1) for a, b in (("x", "cx"), ("y", "cy")))
        assert 0 <= x <= width
        assert 0 <= y <= height


def test_a_perfect_check_repeats_only_what_fast_got_wrong(script):
    got = script.run_both([task(1, 1), task(0, 1), task(0, 0), task(1, 0)], "f", "d", script.Check(1.0, 0.0))

    assert (got.solved, got.score) == (0.75, 1.5)
    assert got.money == pytest.approx((4 * 0.01 + 2 * 0.04) / (4 * 0.04))
    assert got.seconds == pytest.approx((4 * 2 * 2.6 + 2 * 4 * (3 + 300 / 65)) / (4 * 4 * (3 + 300 / 65)))


def test_a_false_alarm_can_lose_what_fast_had_solved(script):
    got = script.run_both([task(1, 0), task(1, 1)], "f", "d", script.Check(0.0, 0.5))

    assert got.solved == 0.75


def test_a_mark_without_a_figure_is_reported(script):
    with pytest.raises(KeyError):
        script.fill("<!-- figures: nothing -->\n<!-- end -->", {})


def test_the_rank_of_a_score_that_says_nothing_is_chance(script):
    assert script.rank([(1.0, True), (1.0, False)]) == 0.5
    assert script.rank([(2.0, True), (1.0, False)]) == 1.0
