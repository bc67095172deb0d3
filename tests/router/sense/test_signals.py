import pytest
from msgspec.structs import replace

from router.contract.caller import SessionKey
from router.contract.signals import Alias, FinishedTurn, SessionHistory, SessionPosition, TokenCount, Turn
from router.contract.words import Tier, TurnKind
from router.sense.features import read_features
from router.sense.signals import count_exactly, read_signals
from router.sense.tokens import Calibration, estimate_prompt
from tests.tools.houses import Counter
from tests.tools.values import ask, make_signals

BEFORE = SessionHistory(1, (FinishedTurn("migrate the whole store", 9, 3),))


def signals_of(turn: Turn):
    return read_signals(ask(), turn, Alias("auto"), {}, Calibration())


def test_a_subagent_is_read_by_what_it_was_given():
    turn = Turn(TurnKind.SUBAGENT, "s", "claude-code", None, "list the files")

    assert signals_of(turn).features == read_features("list the files")


def test_what_a_subagent_was_given_does_not_count_where_it_only_searches():
    turn = Turn(TurnKind.SUBAGENT, "s", "claude-code", None, "thoroughly search every file", only_reads=True)

    assert signals_of(turn).features is None


@pytest.mark.parametrize("text", ["go on", "fix it", "1", "migrate it"])
def test_a_turn_is_read_by_its_own_words_and_short_ones_come_with_those_before(text):
    turn = Turn(TurnKind.ASK, "s", "codex", text, text, history=BEFORE)

    assert signals_of(turn).features == read_features(text)
    assert signals_of(turn).earlier == (read_features("migrate the whole store"),)


def test_what_a_row_of_go_ons_is_about_comes_last():
    turn = Turn(TurnKind.FOLLOW_UP, "s", "codex", "go on", "build the importer", history=BEFORE)

    assert signals_of(turn).earlier == (read_features("migrate the whole store"), read_features("build the importer"))


def test_earlier_words_are_not_read_where_they_cannot_matter():
    long = "please " * 30
    remembered = SessionPosition(Tier.FAST, ask=-3.0)

    assert signals_of(Turn(TurnKind.ASK, "s", "codex", "go on", "go on")).earlier == ()
    assert signals_of(Turn(TurnKind.ASK, "s", "codex", long, long, history=BEFORE)).earlier == ()
    assert signals_of(Turn(TurnKind.ASK, "s", "codex", "go on", "go on", history=BEFORE, position=remembered)).earlier == ()


def test_a_request_without_words_has_no_features():
    assert signals_of(Turn(TurnKind.SIDE, "s", "codex")).features is None


@pytest.mark.parametrize(("counted", "expected"), [(9_000, 9_000), (None, 100)], ids=["counted", "cannot be counted"])
async def test_an_exact_count_takes_the_estimates_place_and_teaches_the_session(counted, expected):
    view, calibration = ask("word " * 20_000), Calibration()
    estimated = estimate_prompt(view)

    near = replace(make_signals(), prompt=TokenCount(100, 50, 300_000))
    signals = await count_exactly(view, near, Counter(counted), calibration, lambda signals: 1.0)

    assert signals.prompt.tokens == expected
    narrowed = calibration.narrow(SessionKey(view.caller, signals.turn.session), estimated)
    assert narrowed.tokens == (counted or estimated.tokens)


@pytest.mark.parametrize(
    ("prompt", "worth"),
    [(TokenCount(100, 50, 150), 1.0), (TokenCount(100, 100, 100), 1.0), (TokenCount(100, 50, 300_000), 0.0)],
)
async def test_a_prompt_is_not_counted_where_it_fits_every_window_or_that_is_worth_nothing(prompt, worth):
    signals = replace(make_signals(), prompt=prompt)

    assert await count_exactly(ask(), signals, Counter(9_000), Calibration(), lambda signals: worth) is signals
