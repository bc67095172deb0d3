import pytest

from router.contract.signals import Alias, FinishedTurn, SessionHistory, Turn
from router.contract.words import TurnKind
from router.sense.calibration import Calibration
from router.sense.features import read_features
from router.sense.signals import count_exactly, read_signals
from router.sense.tokens import estimate_prompt
from tests.tools.houses import Counter
from tests.tools.values import ask, make_signals

BEFORE = SessionHistory(1, (FinishedTurn("migrate the whole store", 9, 3),))


def features_of(turn: Turn):
    return read_signals(ask(), turn, Alias("auto"), {}, Calibration()).features


def test_a_subagent_is_read_by_what_it_was_given():
    turn = Turn(TurnKind.SUBAGENT, "s", "claude-code", None, "list the files")

    assert features_of(turn) == read_features("list the files", SessionHistory(), offers_tools=False)


def test_what_a_subagent_was_given_does_not_count_where_it_only_searches():
    turn = Turn(TurnKind.SUBAGENT, "s", "claude-code", None, "thoroughly search every file", only_reads=True)

    assert features_of(turn) is None


def test_a_go_on_is_read_by_the_ask_that_it_goes_on_with():
    turn = Turn(TurnKind.FOLLOW_UP, "s", "codex", "go on", "migrate the whole store", history=BEFORE)

    assert features_of(turn) == read_features("migrate the whole store", BEFORE, offers_tools=False, follows=True)


@pytest.mark.parametrize("text", ["fix it", "same for the others"])
def test_vague_words_are_read_by_the_turn_before_and_without_one_by_themselves(text):
    later = Turn(TurnKind.ASK, "s", "codex", text, text, history=BEFORE)
    first = Turn(TurnKind.ASK, "s", "codex", text, text)

    assert features_of(later) == read_features("migrate the whole store", BEFORE, offers_tools=False, follows=True)
    assert features_of(first) == read_features(text, SessionHistory(), offers_tools=False)


def test_a_request_without_words_has_no_features():
    assert features_of(Turn(TurnKind.SIDE, "s", "codex")) is None


def test_thanks_in_between_do_not_hide_what_a_go_on_goes_on_with():
    past = SessionHistory(2, (FinishedTurn("migrate the whole store", 9, 3), FinishedTurn("thanks", 0, 0)))
    turn = Turn(TurnKind.FOLLOW_UP, "s", "codex", "go on", "thanks", history=past)

    assert features_of(turn) == read_features("migrate the whole store", past, offers_tools=False, follows=True)


@pytest.mark.parametrize("text", ["1", "b", "option b", "the second one"])
def test_the_answer_to_a_choice_follows_the_turn_before(text):
    turn = Turn(TurnKind.ASK, "s", "codex", text, text, history=BEFORE)

    assert features_of(turn) == read_features("migrate the whole store", BEFORE, offers_tools=False, follows=True)


@pytest.mark.parametrize(("counted", "expected"), [(9_000, 9_000), (None, 100)], ids=["counted", "cannot be counted"])
async def test_an_exact_count_takes_the_estimates_place_and_teaches_the_session(counted, expected):
    view, calibration = ask("word " * 20_000), Calibration()
    estimated = estimate_prompt(view)

    signals = await count_exactly(view, make_signals(tokens=100), Counter(counted), calibration)

    assert signals.prompt.tokens == expected
    narrowed = calibration.narrow(view.caller, signals.turn.session, estimated)
    assert narrowed.tokens == (counted or estimated.tokens)
