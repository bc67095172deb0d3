"""Entries from journals of every shape: what a request never came to is missing in its entry, and nothing else is."""

import json
import time

import pytest
from msgspec.structs import asdict, replace

from router.contract.caller import Caller
from router.contract.entry import Attempt
from router.contract.errors import BadRequest, UpstreamCut
from router.contract.facts import (
    AttemptEnded,
    AttemptOpened,
    Decided,
    Dequeued,
    Ending,
    FirstByte,
    FirstToken,
    QuestionEnded,
    Queued,
    Read,
    Settled,
)
from router.contract.usage import Usage
from router.contract.words import Outcome, Tier, TurnKind
from router.settle.entry import write_entry
from tests.tools.exchanges import make_decided, make_decision, make_exchange
from tests.tools.values import ask, make_target

SPARK, SAGE = make_target(), make_target("sage", Tier.DEEP)
VIEW = ask("fix it", stream=True)
DECIDED = make_decided(VIEW)
SERVED = Ending(Outcome.SERVED, 200)


def line_of(*facts, **more):
    return entry_of(*facts, **more).line


def attempts_of(entry):
    return [(row["target"], row["error"]) for row in json.loads(entry.attempts)]


def entry_of(*facts, ending=SERVED, answer=None, began=10.0, at=14.0):
    exchange = make_exchange(name="req_7", raw=VIEW.raw, began=began)
    for fact in facts:
        exchange.note(fact)
    return write_entry(exchange, Settled(at, ending, answer), time.time())


def opened(at=10.5, target=SPARK, failed="", dropped=()):
    return AttemptOpened(at, target, failed, dropped)


def ended(at=14.0, target=SPARK, status=200, error=None, usage=None, speed=None, cost=None):
    return AttemptEnded(at, target, Attempt(target.name, status, error, 1.0, usage, cost), None, usage, speed)


def test_a_request_that_was_refused_before_it_was_read_has_nothing_but_its_frame():
    entry = entry_of(ending=Ending(Outcome.REFUSED, 400, BadRequest("x")), at=10.25)
    line = entry.line

    assert (line.id, line.outcome, line.status, line.error) == ("req_7", Outcome.REFUSED, 400, "invalid_request")
    assert (line.model, line.streaming, entry.decision, line.because) == ("", False, None, None)
    assert (line.session, line.turn_kind, line.client, line.score) == (None, None, None, None)
    assert (entry.attempts, line.attempts, line.tier, line.target, line.ttft_ms) == ("[]", 0, None, None, None)
    assert (line.input_tokens, line.tokens_estimated, line.cost_usd, line.tokens_per_second) == (None, None, None, None)
    assert line.overhead_ms == line.duration_ms == 250.0


def test_a_request_that_was_read_and_refused_has_its_model():
    entry = entry_of(Read(VIEW), ending=Ending(Outcome.REFUSED, 404, BadRequest("x")))

    assert (entry.line.model, entry.line.streaming, entry.line.tier, entry.decision) == ("auto", True, None, None)


def test_a_request_that_was_decided_and_refused_has_its_tier_and_no_target():
    entry = entry_of(Read(VIEW), DECIDED, ending=Ending(Outcome.REFUSED, 400, BadRequest("x")))

    line = entry.line
    assert (line.tier, line.target, line.because) == (Tier.FAST, None, "looks like a quick edit")
    assert (line.session, line.turn_kind, line.client, line.score) == ("session", "ask", "unknown", 0.1)
    assert json.loads(entry.decision)["tier"] == "fast"


def test_a_served_request_has_its_times_its_tokens_and_its_price():
    entry = entry_of(
        Read(VIEW),
        DECIDED,
        opened(dropped=("top_k",)),
        FirstByte(SPARK),
        FirstToken(11.25, SPARK),
        ended(usage=Usage(1_000_000, 100_000, cached_tokens=500_000), speed=36.3636, cost=1.55),
    )

    line = entry.line
    assert (line.overhead_ms, line.ttft_ms, line.duration_ms) == (500.0, 1250.0, 4000.0)
    assert (line.tier, line.target, line.attempts) == (Tier.FAST, "spark", 1)
    used = {"input_tokens": 1_000_000, "output_tokens": 100_000, "cached_tokens": 500_000}
    assert json.loads(entry.attempts) == [
        {"target": "spark", "status": 200, "error": None, "seconds": 1.0, "usage": used, "cost_usd": 1.55}
    ]
    assert (line.input_tokens, line.output_tokens, line.cached_tokens) == (1_000_000, 100_000, 500_000)
    assert (line.reasoning_tokens, line.tokens_estimated) == (0, False)
    assert line.cost_usd == 1.55
    assert (line.tokens_per_second, line.error) == (36.4, None)
    assert json.loads(entry.decision)["dropped"] == ["top_k"]


def test_after_two_attempts_the_entry_is_that_of_the_second_and_the_overhead_that_of_the_first():
    entry = entry_of(
        Read(VIEW),
        DECIDED,
        opened(10.5),
        ended(12.0, status=500, error="upstream_refused", usage=Usage(7, 7)),
        opened(12.5, SAGE, "spark failed (500)", ("seed",)),
        ended(14.0, SAGE, usage=Usage(9, 3)),
    )

    line = entry.line
    assert attempts_of(entry) == [("spark", "upstream_refused"), ("sage", None)]
    assert (line.tier, line.target, line.input_tokens, line.attempts) == (Tier.DEEP, "sage", 9, 2)
    assert line.because == "spark failed (500), so sage answers: looks like a quick edit"
    assert line.overhead_ms == 500.0
    kept = json.loads(entry.decision)
    assert (kept["dropped"], kept["because"], kept["tier"]) == (["seed"], "looks like a quick edit", "fast")


@pytest.mark.parametrize(
    ("costs", "total"),
    [((0.25, 0.5), 0.75), ((0.0, 0.5), 0.5), ((None, 0.5), None), ((0.25, None), None), ((None, None), None)],
    ids=["both", "a refusal first", "first unknown", "second unknown", "neither"],
)
def test_the_costs_of_two_attempts_are_kept_apart_and_their_sum_is_known_only_if_both_are(costs, total):
    first, second = costs

    entry = entry_of(
        opened(),
        ended(12.0, status=200, error="upstream_malformed", usage=Usage(7, 7, is_estimated=True), cost=first),
        opened(12.5, SAGE),
        ended(14.0, SAGE, usage=Usage(9, 3), cost=second),
    )

    assert entry.line.cost_usd == total
    kept = json.loads(entry.attempts)
    assert [attempt.get("cost_usd") for attempt in kept] == [first, second]
    assert [attempt["usage"].get("is_estimated", False) for attempt in kept] == [True, False]


def test_sums_of_small_costs_have_no_rounding_noise():
    entry = entry_of(opened(), ended(12.0, cost=0.1), opened(12.5, SAGE), ended(14.0, SAGE, cost=0.2))

    assert entry.line.cost_usd == 0.3


def test_a_target_that_could_only_misunderstand_the_request_is_an_attempt_without_a_call():
    entry = entry_of(
        Read(VIEW), DECIDED, ended(10.5, SAGE, None, "misfit"), opened(11.0), ended(14.0, usage=Usage(9, 3), speed=12.0)
    )

    assert attempts_of(entry) == [("sage", "misfit"), ("spark", None)]
    assert (entry.line.target, entry.line.overhead_ms) == ("spark", 1000.0)


def test_a_cut_answer_has_the_code_of_its_cut_and_what_was_written_until_then():
    cut = Ending(Outcome.CUT_SHORT, 200, UpstreamCut("spark", "x"))

    entry = entry_of(
        Read(VIEW),
        DECIDED,
        opened(),
        FirstToken(11.0, SPARK),
        ended(error="upstream_cut", usage=Usage(9, 3, is_estimated=True)),
        ending=cut,
    )

    line = entry.line
    assert (line.outcome, line.status, line.error) == (Outcome.CUT_SHORT, 200, "upstream_cut")
    assert line.tokens_estimated is True
    assert line.ttft_ms == 1000.0


def test_a_request_whose_caller_left_names_the_target_that_was_called():
    entry = entry_of(
        Read(VIEW), DECIDED, opened(), ended(status=None, error="abandoned"), ending=Ending(Outcome.ABANDONED, 499)
    )

    line = entry.line
    assert (line.outcome, line.status, line.error, line.target) == (Outcome.ABANDONED, 499, None, "spark")
    assert attempts_of(entry) == [("spark", "abandoned")]


def test_without_the_operators_wish_no_text_is_kept():
    entry = entry_of(Read(VIEW), DECIDED, opened(), ended())

    assert (entry.prompt_text, entry.answer_text) == (None, None)
    assert "person_text" not in json.loads(entry.decision)
    assert entry.person_text == DECIDED.decision.turn.person_text


def test_with_it_both_texts_are_kept():
    entry = entry_of(Read(VIEW), DECIDED, opened(), ended(), answer=b"data: h\xc3\xa9\n\n")

    assert entry.prompt_text == VIEW.raw.decode()
    assert entry.answer_text == "data: hé\n\n"
    assert json.loads(entry.decision)["person_text"] == DECIDED.decision.turn.person_text


def test_a_prompt_is_kept_though_nothing_was_answered():
    entry = entry_of(Read(VIEW), ending=Ending(Outcome.ABANDONED, 499), answer=b"")

    assert entry.prompt_text == VIEW.raw.decode()
    assert entry.answer_text is None


def test_a_text_that_is_too_long_or_cut_inside_a_letter_is_kept_as_far_as_it_goes():
    answer = b"x" * ((1 << 20) - 1) + "é".encode() + b"tail"

    entry = entry_of(Read(VIEW), answer=answer)

    assert len(entry.answer_text) == 1 << 20
    assert entry.answer_text.endswith("x\N{REPLACEMENT CHARACTER}")


def test_an_entry_is_dated_at_the_requests_arrival():
    before = time.time()

    entry = entry_of(began=10.0, at=110.0)

    assert before - 100 <= entry.line.at <= time.time() - 100


def test_the_newest_decision_counts():
    later = Decided(VIEW, DECIDED.session, make_decision(Tier.DEEP, ("sage",)))

    assert line_of(Read(VIEW), DECIDED, later).tier == Tier.DEEP


def test_words_of_a_closed_set_are_plain_text():
    line = line_of(Read(VIEW), DECIDED, opened(), ended())

    assert {type(word) for word in (line.turn_kind, line.dialect, line.outcome, line.tier)} == {str}


def test_a_wall_clock_that_jumps_back_changes_no_duration(monkeypatch):
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 3_600)

    line = line_of(Read(VIEW), DECIDED, opened(), FirstToken(11.0, SPARK), ended())

    assert (line.duration_ms, line.ttft_ms, line.overhead_ms) == (4_000.0, 1_000.0, 500.0)


def question(at=10.7, opened_at=10.4, usage=None, error=None, cost=None):
    row = Attempt("spark", 200, error, 0.3, usage, cost, is_question=True)
    return QuestionEnded(at, SPARK, row, None, usage, None, opened_at)


def test_a_question_is_an_attempt_of_its_own_with_its_cost_and_no_part_of_our_own_time():
    answer = ended(14.0, usage=Usage(100_000, 1_000), cost=0.11)

    entry = entry_of(Read(VIEW), question(usage=Usage(300, 2), cost=0.0005), DECIDED, opened(10.8), answer)

    first, second = json.loads(entry.attempts)
    assert (first["is_question"], "is_question" in second) == (True, False)
    assert entry.line.attempts == 2
    assert (first["cost_usd"], second["cost_usd"], entry.line.cost_usd) == (0.0005, 0.11, 0.1105)
    assert entry.line.overhead_ms == pytest.approx(400.0)
    assert entry.line.input_tokens == 100_000


def test_a_question_whose_cost_is_unknown_makes_that_of_the_request_unknown():
    entry = entry_of(Read(VIEW), question(error="late"), DECIDED, opened(10.8), ended(14.0, cost=1.0))

    assert attempts_of(entry) == [("spark", "late"), ("spark", None)]
    assert entry.line.cost_usd is None


def test_a_caller_who_left_during_the_question_has_that_attempt_alone():
    entry = entry_of(Read(VIEW), question(error="abandoned"), ending=Ending(Outcome.ABANDONED, 499))

    assert attempts_of(entry) == [("spark", "abandoned")]
    assert (entry.line.target, entry.line.tier, entry.decision) == (None, None, None)


def test_a_wait_for_a_quota_is_kept_and_is_no_work_of_ours():
    entry = entry_of(
        Read(VIEW), DECIDED, Queued(10.2, SPARK, 1, 1, 3.0), Dequeued(13.2, SPARK, 3.0, has_turn=True), opened(13.3), ended()
    )

    assert entry.line.overhead_ms == 200.0
    assert json.loads(entry.decision)["queued"] == [["spark", 3.0]]


def test_a_wait_after_a_failed_attempt_leaves_the_overhead_as_it_was():
    waited = (Queued(11.0, SAGE, 1, 1, 1.0), Dequeued(12.0, SAGE, 1.0, has_turn=False))
    entry = entry_of(Read(VIEW), DECIDED, opened(10.1), ended(11.0, error="upstream_cut"), *waited)

    assert entry.line.overhead_ms == 100.0
    assert json.loads(entry.decision)["queued"] == [["sage", 1.0]]


def test_each_field_of_a_line_has_its_own_value():
    usage = Usage(900, 80, cached_tokens=70, reasoning_tokens=60, is_estimated=True)
    end = ended(usage=usage, speed=40.04, cost=0.5)
    cut = Ending(Outcome.CUT_SHORT, 200, UpstreamCut("spark", "cut"))
    turn = replace(DECIDED.decision.turn, kind=TurnKind.FOLLOW_UP, session="s", client="c")
    decided = replace(DECIDED, decision=replace(DECIDED.decision, turn=turn, because="it is so", score=0.25))
    exchange = make_exchange(name="req_7", raw=VIEW.raw, began=10.0)
    exchange.arrival = replace(exchange.arrival, caller=Caller("ada"), key="k", job="j")
    for fact in (Read(VIEW), decided, opened(), FirstToken(12.0, SPARK), end):
        exchange.note(fact)

    line = write_entry(exchange, Settled(14.0, cut), 1_004.0).line

    assert asdict(line) == {
        "id": "req_7",
        "at": 1_000.0,
        "caller": "ada",
        "key": "k",
        "job": "j",
        "session": "s",
        "turn_kind": "follow_up",
        "client": "c",
        "dialect": "chat",
        "model": "auto",
        "streaming": True,
        "outcome": "CUT_SHORT",
        "status": 200,
        "error": UpstreamCut("spark", "cut").code,
        "tier": "fast",
        "target": "spark",
        "because": "it is so",
        "score": 0.25,
        "overhead_ms": 500.0,
        "ttft_ms": 2_000.0,
        "duration_ms": 4_000.0,
        "tokens_per_second": 40.0,
        "input_tokens": 900,
        "cached_tokens": 70,
        "output_tokens": 80,
        "reasoning_tokens": 60,
        "tokens_estimated": True,
        "cost_usd": 0.5,
        "attempts": 1,
        "billing": None,
        "list_usd": None,
        "combined": None,
    }
