"""What is read of a row's decision."""

import json

import msgspec
import pytest
from msgspec.structs import replace

from router.contract.opinions import Insist, Lean, Rank
from router.contract.past import RecordedCall
from router.contract.words import Tier
from router.past.rows import Call, read_call
from tests.tools.kept import LINE

SIDE = ["spark", 0.0, 2.0, 1.0, 0.01, 0.02, True, [1.0, 1.0], 2.0]


def read(decision: object, **line) -> Call:
    written = decision if isinstance(decision, str) else msgspec.json.encode(decision).decode()
    return read_call(RecordedCall(replace(LINE, **line), written))


@pytest.mark.parametrize(
    "decision",
    [
        *("", "{", "[]", '{"fast": 3}', '{"leans": [1]}', '{"deep": ["x"]}', '{"prompt_tokens": 1e308}'),
        *('{"leans": [["learned", {"log_odds": 1e308}]]}', '{"leans": [["learned", {"because": "x"}]]}'),
    ],
)
def test_a_decision_that_tandem_did_not_write_is_not_read(decision):
    assert read(decision).kept is None


@pytest.mark.parametrize("odd", [{"at": float("inf")}, {"tier": "medium"}, {"dialect": "latin"}])
def test_nor_is_that_of_an_odd_line(odd):
    assert read({"tier": "fast"}, **odd).kept is None
    assert read({"tier": "fast"}).decided == "fast"


def test_a_row_has_all_that_its_decision_expected():
    kept = {"v": 3, "tier": "fast", "fast": SIDE, "deep": [*SIDE[:2], 20.0, *SIDE[3:]], "person_text": "fix it"}

    call = read({**kept, "decided_by": "override"}, tier=Tier.DEEP)

    assert (call.kept.fast.seconds, call.kept.deep.seconds, call.words) == (2.0, 20.0, "fix it")
    assert (call.decided, call.is_asked_for) == ("fast", True)


def test_failed_calls_are_known_by_what_the_decision_of_a_later_call_heard():
    kept = {"leans": [["trajectory", Lean(1.0, "in this turn 2 calls failed")]]}

    assert (read(kept).has_trouble, read(kept, turn_kind="tool_loop").has_trouble) == (False, True)


def test_the_rank_of_an_override_is_that_of_the_person():
    kept = {"insists": [["rules", Insist("x", Rank.OPERATOR_RULE)], ["override", Insist("y", Rank.IN_BAND_LINE)]]}

    assert json.loads(msgspec.json.encode(kept))["insists"][1][1]["rank"] == Rank.IN_BAND_LINE
    assert read(kept).kept.override == "in_band_line"
