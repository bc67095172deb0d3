"""A history whose regret is known, from the rows of a ledger to every figure: to the cent and the millisecond."""

import json
import time

import pytest

from router.contract.caller import Caller
from router.contract.past import RecentCalls
from router.contract.target import Price
from router.contract.words import SAID_WRONG, Outcome, Tier, TurnKind
from router.past.lookback import MAX_ROWS, look_back
from router.stores.sqlite.past import SqliteEntryReader
from router.stores.sqlite.turns import mark_misjudged
from tests.tools.kept import make_entry
from tests.tools.ledgers import write_ledger

BEGAN = time.time() - 3_600.0
PRICES = {
    "spark": Price(input=1.0, output=5.0, cached_input=0.1),
    "oracle": Price(input=10.0, output=50.0, cached_input=1.0, cache_write=12.5, cache_minutes=5.0),
}


def keep(tier: str, fast=(2.0, 0.01), deep=(20.0, 0.05), *, decided_by="estimate", leans=()) -> str:
    """A decision for a tier, with what it expected of both: seconds and USD, whatever the score."""
    sides = {
        name: [name, 0.0, seconds, 0.0, usd, 0.0, True, [1.0, 1.0]] for name, (seconds, usd) in (("fast", fast), ("deep", deep))
    }
    said = [[policy, {"log_odds": 1.0, "because": because}] for policy, because in leans]
    return json.dumps({"v": 3, "tier": tier, "decided_by": decided_by, "leans": said, **sides})


def row(name: str, tier: str, after: float, seconds: float, usd: float, tokens: tuple[int, int, int], **more):
    """A call of the session that the first letter of its name stands for; tokens in, of them cached, and out."""
    went_in, cached, out = tokens
    return make_entry(
        name,
        session=name[0],
        at=BEGAN + after,
        tier=tier,
        target="spark" if tier == Tier.FAST else "oracle",
        duration_ms=seconds * 1000,
        cost_usd=usd,
        input_tokens=went_in,
        cached_tokens=cached,
        output_tokens=out,
        **{"decision": keep(tier), **more},
    )


LOOP = {"turn_kind": TurnKind.TOOL_LOOP}
WRONG = (("learned", SAID_WRONG),)
HISTORY = (
    # a: right on fast; wrong on fast, as the next words say; then a long turn on deep, which reads 10,500 tokens again.
    row("a1", "fast", 0, 2.0, 0.004, (9_000, 8_000, 400)),
    row("a2", "fast", 10, 3.5, 0.006, (10_000, 9_000, 500)),
    row("a3", "deep", 20, 30.0, 0.4, (12_000, 0, 5_000), decision=keep("deep", leans=WRONG)),
    # b: moved up by the router, asked again and marked: one turn, of which fast had two calls. Then a short turn on deep.
    row("b1", "fast", 0, 1.0, 0.001, (3_000, 0, 80)),
    row("b2", "fast", 2, 1.25, 0.002, (4_000, 3_000, 100), **LOOP),
    row(
        "b3", "deep", 4, 8.0, 0.09, (6_000, 1_000, 900), decision=keep("deep", leans=(("trajectory", "calls failed"),)), **LOOP
    ),
    row("b4", "deep", 20, 12.0, 0.02, (7_000, 6_900, 150), decision=keep("deep", leans=WRONG)),
    # c: the person asks for deep after two turns on fast, and after a pause in which every cache is cold. Then back to fast.
    row("c1", "fast", 0, 0.75, 0.001, (1_000, 0, 50)),
    row("c2", "fast", 5, 0.5, 0.001, (1_100, 1_000, 50)),
    row("c3", "deep", 600, 40.0, 0.3, (20_000, 0, 300), decision=keep("deep", decided_by="override")),
    row("c4", "fast", 645, 4.0, 0.007, (20_500, 2_000, 100), decision=keep("fast", (3.0, 0.01), (25.0, 0.05))),
    # d: two answers that were broken off, the first of which nobody counted.
    row(
        *("d1", "fast", 0, 1.5, 0.002, (1_000, 0, 120)),
        decision=keep("fast", (1.0, 0.01), (16.0, 0.08)),
        outcome=Outcome.ABANDONED,
        tokens_estimated=True,
    ),
    row("d2", "deep", 5, 9.0, 0.05, (900, 0, 80), outcome=Outcome.INTERRUPTED),
)


@pytest.fixture
def ledger(tmp_path):
    path = write_ledger(tmp_path / "test.db", *HISTORY)
    reader = SqliteEntryReader(path)
    mark_misjudged(path, reader.find_turn("b1"), Tier.DEEP)
    return reader


def test_a_known_history_has_the_regret_that_was_worked_out_by_hand(ledger):
    found = look_back(ledger, PRICES.get, 0.0)

    assert (found.is_complete, found.regret.turns) == (True, 11)
    figures = {name: (figure.value, figure.count, figure.sure, figure.rows) for name, figure in found.regret.figures.items()}
    assert figures == {
        # 2.0 + 4.0 + 1.5 s on fast, where (20 + 25 + 16) / (2 + 3 + 1) times as long was expected of deep
        "saved_seconds": (68.75, 3, "estimated", ("c4", "a1", "d1")),
        # a2; both fast calls of b1; c1 and c2
        "lost_seconds": (7.0, 4, "estimated", ("a2", "b1", "c1", "c2")),
        # b4 took 12 s where fast was expected to take a tenth
        "deep_needlessly_seconds": (10.8, 1, "guessed", ("b4",)),
        # 0.013 USD, where (0.05 + 0.05 + 0.08) / 0.03 times as much was expected of deep
        "saved_usd": (0.065, 3, "estimated", ("c4", "a1", "d1")),
        "lost_usd": (0.011, 4, "estimated", ("a2", "b1", "c1", "c2")),
        # 10,500 and 3,100 and 900 tokens at 12.5 - 1 USD a million, 18,300 at 1 - 0.1, and none after the pause
        "hops_usd": (0.18322, 5, "estimated", ("a3", "b3", "c4", "d2", "c3")),
        "after_interrupt_tokens": (200, 2, "estimated", ("d1", "d2")),
    }
    assert found.regret.seconds == {"saved": 68.75, "lost": 7.0, "deep_needlessly": 10.8}


def test_every_figure_says_how_it_is_computed_in_one_sentence(ledger):
    shown = look_back(ledger, PRICES.get, 0.0).as_json()

    assert set(shown) == {"since", "from", "complete", "turns", "figures"}
    for figure in shown["figures"].values():
        assert set(figure) == {"value", "unit", "sure", "how", "rows", "count"}
        assert figure["how"].endswith(".")
        assert ". " not in figure["how"]
    assert json.loads(json.dumps(shown)) == shown


def test_a_caller_is_shown_its_own_turns_alone(tmp_path):
    mine, other = (row(name, "fast", 0, 2.0, 0.004, (9, 0, 4), caller=Caller(name)) for name in ("ann", "bob"))
    reader = SqliteEntryReader(write_ledger(tmp_path / "test.db", mine, other))

    assert look_back(reader, PRICES.get, 0.0, "ann").regret.figures["saved_seconds"].rows == ("ann",)
    assert look_back(reader, PRICES.get, 0.0).regret.turns == 2


def test_what_is_too_old_to_be_looked_at_is_said_to_be_left_out():
    class Bounded:
        def read_recent_calls(self, since, rows, caller):
            assert (since, rows, caller) == (100.0, MAX_ROWS, None)
            return RecentCalls([], 250.0, is_complete=False)

    shown = look_back(Bounded(), PRICES.get, 100.0).as_json()

    assert (shown["since"], shown["from"], shown["complete"], shown["turns"]) == (100.0, 250.0, False, 0)
