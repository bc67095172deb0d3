"""What is said at the end."""

from msgspec.structs import replace

from router.contract.words import Outcome, Tier, TurnKind
from router.screen.totals import Totals
from router.screen.turns import Begun, Turns
from tests.router.decide.test_against import keep
from tests.tools.kept import LINE, make_entry


def serve(totals: Totals, turns: Turns, name: str, tier: Tier, kind: TurnKind = TurnKind.ASK, **more) -> None:
    call = Begun(name, 100.0, kind, tier, "because", session="s")
    had_moved_up = turns.has_moved_up(call)
    totals.count_begin(turns.begin(call), had_moved_up=had_moved_up)
    line = replace(LINE, id=name, tier=tier, turn_kind=kind, score=0.5, **{"duration_ms": 1_000.0, "cost_usd": 0.01, **more})
    had_failed = turns.has_failed(name)
    totals.count_end(turns.end(line), replace(make_entry(), line=line, decision=keep()), had_failed=had_failed)


def test_turns_tiers_money_and_time_are_told_against_deep():
    totals, turns = Totals(), Turns()
    serve(totals, turns, "1", Tier.FAST)
    serve(totals, turns, "2", Tier.FAST)
    serve(totals, turns, "3", Tier.DEEP, duration_ms=20_000.0, cost_usd=0.5)

    assert (
        totals.sentence()
        == "3 turns, 2 fast 1 deep, $0.52 (all on deep: about $0.60, 21s shorter to done); 0 moved up, 0 failed"
    )


def test_a_move_up_and_a_failure_count_once():
    totals, turns = Totals(), Turns()
    serve(totals, turns, "1", Tier.FAST)
    serve(totals, turns, "2", Tier.DEEP, TurnKind.TOOL_LOOP)
    serve(totals, turns, "3", Tier.DEEP, TurnKind.TOOL_LOOP, outcome=Outcome.FAILED)
    serve(totals, turns, "4", Tier.DEEP, TurnKind.TOOL_LOOP, outcome=Outcome.FAILED)

    assert totals.sentence().endswith("; 1 moved up, 1 failed")


def test_a_turn_that_is_served_after_all_has_not_failed():
    totals, turns = Totals(), Turns()
    serve(totals, turns, "1", Tier.FAST, outcome=Outcome.FAILED, output_tokens=None)
    serve(totals, turns, "2", Tier.FAST)

    assert totals.sentence().startswith("1 turn, 1 fast")
    assert totals.sentence().endswith("0 failed")


def test_without_prices_the_time_is_told():
    totals, turns = Totals(), Turns()
    serve(totals, turns, "1", Tier.FAST, cost_usd=None)

    assert totals.sentence() == "1 turn, 1 fast, 1.0s (all on deep: about 11s shorter to done); 0 moved up, 0 failed"


def test_without_turns_there_is_little_to_say():
    totals = Totals()
    line = replace(LINE, tier=None, outcome=Outcome.REFUSED, error="model_not_found")
    totals.count_end(Turns().end(line), replace(make_entry(), line=line), had_failed=False)

    assert Totals().sentence() == "no turns"
    assert totals.sentence() == "no turns, 1 refused"
