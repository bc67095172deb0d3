"""How a decision is kept, and that whoever reads it again is told what was told when it was made."""

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from router.contract.opinions import Insist, Lean, Opinions, Rank, RuleOut, Skipped
from router.contract.past import RecordedCall
from router.contract.words import Tier
from router.decide.choose import decide
from router.decide.explain import explain
from router.decide.opinions import Rules
from router.past.rows import read_call
from router.settle.kept import ROW_COLUMNS, explain_row, keep_decision
from tests.tools.exchanges import ECONOMICS, make_decision
from tests.tools.kept import ATTEMPTS, LINE
from tests.tools.values import PRICE, ask, make_signals, make_target, stand

TOLD_BY_THE_LINE = (
    "billing",
    "caller",
    "list_usd",
    "request_id",
    "queued",
    "outcome",
    "served_by",
    "attempts",
    "ttft_ms",
    "duration_ms",
    "overhead_ms",
    "cost_usd",
    "dropped",
)


class Says:
    name = "says"

    def __init__(self, *opinions) -> None:
        self.opinions = opinions

    def judge(self, request, signals):
        return self.opinions


def row_for(decision, *, dropped=(), keeps_text=False, **line):
    """The row that the ledger would hold of a decision."""
    turn = decision.turn
    values = replace(
        LINE,
        **{
            "session": turn.session,
            "turn_kind": turn.kind,
            "client": turn.client,
            "score": decision.score,
            "tier": decision.tier,
        }
        | {"because": decision.because}
        | line,
    )
    kept = keep_decision(decision, values.because, dropped, keeps_text=keeps_text)
    columns = {name: getattr(values, name) for name in ROW_COLUMNS[:-2]}
    # As SQLite gives them back: plain text.
    plain = [str(value) if isinstance(value, str) else value for value in columns.values()]
    return (*plain, kept, ATTEMPTS)


opinion = some.one_of(
    some.builds(Lean, some.floats(-8, 8), some.text(max_size=20), some.booleans()),
    some.builds(RuleOut, some.sampled_from(["spark", "sage"]), some.text(max_size=9), some.booleans(), some.none(),
                some.one_of(some.none(), some.tuples(some.integers(0, 9), some.integers(0, 9)))),
    some.builds(Insist, some.text(max_size=9), some.sampled_from(Rank), some.sampled_from(Tier), some.none(), some.just(True)),
)  # fmt: skip


@given(
    some.lists(opinion, max_size=4), some.integers(0, 200_000), some.floats(0, 90), some.booleans(), some.booleans(),
    some.booleans(),
)  # fmt: skip
def test_a_kept_decision_is_told_as_it_was_made(opinions, tokens, wait, priced, has_second, keeps_text):
    price = PRICE if priced else None
    targets = [stand(make_target(price=price), wait), stand(make_target("sage", Tier.DEEP, price=price))]
    if has_second:
        targets.append(stand(make_target("second", price=price)))
    signals = make_signals(*targets, tokens=tokens)
    lasting = [said for said in opinions if not isinstance(said, RuleOut) or said.target == "spark"]
    decision = decide(Rules((Says(*lasting),), ECONOMICS, True, "f", "w"), ask(), signals)

    row = row_for(decision, keeps_text=keeps_text)
    told = explain_row(row)

    read = read_call(RecordedCall(LINE, row[ROW_COLUMNS.index("decision")])).kept
    assert all(getattr(read, name) == told[name] for name in ("decided_by", "prompt_tokens", "weights", "person_text"))
    assert [said.because for _, said in read.leans] == [item["because"] for item in told["evidence"] if item["kind"] == "lean"]
    made = explain(decision)
    del made["as_if"]  # of a request that was not sent
    assert {key: value for key, value in told.items() if key not in TOLD_BY_THE_LINE} == {
        **made,
        "person_text": made["person_text"] if keeps_text else None,
    }


def test_what_became_of_the_request_is_told_from_the_columns():
    row = row_for(make_decision(), dropped=("top_k",), id="req_5", target="sage", tier=Tier.DEEP, cost_usd=0.01)

    told = explain_row(row)

    assert (told["request_id"], told["caller"], told["outcome"], told["served_by"]) == ("req_5", "local", "SERVED", "sage")
    assert (told["tier"], told["because"], told["decided_by"]) == ("fast", "looks like a quick edit", "estimate")
    assert told["attempts"] == [
        {"target": "spark", "status": 200, "error": None, "seconds": 0.1, "usage": None, "cost_usd": None}
    ]
    assert (told["ttft_ms"], told["duration_ms"], told["overhead_ms"]) == (20.0, 100.0, 0.3)
    assert (told["cost_usd"], told["dropped"]) == (0.01, ["top_k"])
    assert orjson.loads(orjson.dumps(told)) == told


def test_the_decisions_own_sentence_is_told_where_the_column_says_who_failed_before():
    row = row_for(make_decision(), because="spark failed (500), so sage answers: looks like a quick edit")

    assert explain_row(row)["because"] == "looks like a quick edit"


def test_what_is_kept_is_small_and_has_a_version():
    said = Opinions(leans=(("learned", Lean(-4.0, "looks like a quick edit: rename", names_turn=True)),))

    kept = keep_decision(make_decision(opinions=said), "looks like a quick edit", (), keeps_text=False)

    assert json.loads(kept) == {
        "v": 3,
        "tier": "fast",
        "targets": ["spark"],
        "decided_by": "estimate",
        "prompt_tokens": 100,
        "usd_per_second": ECONOMICS.usd_per_second,
        "leans": [["learned", {"log_odds": -4.0, "because": "looks like a quick edit: rename", "names_turn": True}]],
    }


def test_a_skipped_policy_is_told():
    skipped = Opinions(skipped=(Skipped("mine", "ValueError"),))

    assert explain_row(row_for(make_decision(opinions=skipped)))["skipped"] == [{"policy": "mine", "reason": "ValueError"}]


@pytest.mark.parametrize("written", ["{", "[]", "7", None, b"\xff", '{"v":2}', '{"v":2,"tier":"slow"}', '{"v":3}'])
def test_what_cannot_be_read_is_none(written):
    assert explain_row((*row_for(make_decision())[:-2], written, "[]")) is None
