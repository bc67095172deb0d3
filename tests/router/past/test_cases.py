"""Turns to decide again: what the rows of a ledger say of each, and each turn of logs and ledger once."""

import json
import sqlite3
import time
from contextlib import closing

import pytest

from router.contract.exchange import Arrival
from router.contract.facts import FirstByte
from router.contract.stores import StoreUnusable
from router.contract.words import Dialect, Operation, Outcome, Tier
from router.past.cases import Case, LedgerTally, RegretSign, read_ledger
from router.past.history import Size
from router.past.replay import choose_again, quiet
from router.past.report import Report
from router.stores.sqlite.past import SqliteEntryReader
from router.wiring.build import build_house
from tests.conftest import SIMULATED
from tests.tools.configs import load_text
from tests.tools.exchanges import make_exchange
from tests.tools.ledgers import keep_entry

WORDS = (
    "fix the typo",
    "Implement the whole parser from scratch, with tests, step by step",
    "why is it slow?",
    "yes",
    "it is still wrong",
)
AGENT = {"user-agent": "claude-cli/2.1"}
TOOLS = [{"type": "function", "function": {"name": "Bash", "parameters": {"type": "object"}}}]
CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "Bash"}}]}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "ok"}


@pytest.fixture
async def house(tmp_path):
    built = build_house(load_text(SIMULATED, tmp_path), with_ledger=True)
    yield built.house
    await built.close()


@pytest.fixture
def read(house, tmp_path):
    """Everything that was recorded, read back."""

    async def read_it(change: str = ""):
        await house.state.entries.close()
        with closing(sqlite3.connect(tmp_path / "test.db")) as database:
            database.executescript(change)
        tally = LedgerTally()
        return read_ledger(SqliteEntryReader(tmp_path / "test.db"), tally), tally

    return read_it


SAYS_WRONG = ({"role": "assistant", "content": "Fixed."}, {"role": "user", "content": "it is still wrong"})


async def serve(
    house,
    content,
    *,
    session="s",
    more=(),
    headers=(),
    tools=(),
    tier=None,
    keeps_text=False,
    outcome=Outcome.SERVED,
    output_tokens: int | None = 100,
):
    """One entry, as if the request had been served."""
    body = {"model": "auto", "messages": [{"role": "user", "content": content}, *more], "tools": [*tools]}
    head = {"x-tandem-session": session, **dict(headers)}
    raw = json.dumps(body if tools else {name: body[name] for name in ("model", "messages")}).encode()
    arrival = Arrival(f"req_{time.monotonic_ns()}", Dialect.CHAT, Operation.CREATE, head, raw)
    decided = await house.decide(arrival)
    if decided.view.overrides.for_session:
        exchange = make_exchange(house.state.memory)
        exchange.note(decided)
        exchange.note(FirstByte(house.plan.targets[decided.decision.targets[0]]))
    keep_entry(house, decided, output_tokens=output_tokens, outcome=outcome, tier=tier, keeps_text=keeps_text)
    return decided.decision


async def test_a_turn_with_text_is_read_as_its_client_wrote_it(house, read):
    blocks = [
        {"type": "text", "text": "The opened file:\n\nImplement everything from scratch, with all of the tests"},
        {"type": "text", "text": "what is the port?"},
    ]
    then = await serve(house, blocks, headers=AGENT, tools=TOOLS, keeps_text=True)

    ((case,), _) = await read()

    again = await choose_again(quiet(house), case)
    assert case.words == "what is the port?"
    assert case.arrival is not None
    assert again.score == pytest.approx(then.score)


@pytest.mark.parametrize("keeps_text", [True, False])
@pytest.mark.parametrize("tier", ["fast", "deep"])
async def test_a_tier_that_was_asked_for_stays_with_and_without_text(house, read, keeps_text, tier):
    headers = {"x-tandem-tier": tier}
    await serve(house, "fix the typo", headers=headers, keeps_text=keeps_text)
    await serve(house, "Implement the whole parser from scratch, step by step", headers=headers, keeps_text=keeps_text)

    cases, _ = await read()

    report = Report("as recorded", "test")
    for case in cases:
        choice = await choose_again(quiet(house), case)
        assert choice.tier is case.was is Tier(tier)
        report.add(case, case.was, choice, {})
    assert report.without_text == 2, "both kinds are said to be what could not be read again"


async def test_the_words_of_a_turn_that_stays_are_known_all_the_same(house, read):
    await serve(house, "fix the parser", headers={"x-tandem-tier": "fast"}, keeps_text=True)
    await serve(house, "fix the parser", more=SAYS_WRONG, keeps_text=True)

    cases, _ = await read()

    assert cases[0].words == "fix the parser"
    assert RegretSign.ASKED_AGAIN in cases[0].regrets


async def test_a_wish_for_the_session_is_no_label_of_its_turns(house, read):
    pin = {"x-tandem-tier": "deep", "x-tandem-scope": "session"}
    first = {"role": "user", "content": "fix the typo"}
    await serve(house, "fix the typo", headers=AGENT)
    await serve(house, "fix the other typo", headers={**AGENT, **pin})
    pinned = await serve(house, "fix the name", more=(CALL, RESULT, first), headers=AGENT)
    await serve(house, "fix the name", more=(CALL, RESULT, first, CALL, RESULT), headers=AGENT)

    cases, _ = await read()

    assert "set to deep" in pinned.because
    assert [case.regrets for case in cases] == [(), (), ()]
    assert [case.size for case in cases] == [Size.QUICK] * 3
    assert [(await choose_again(quiet(house), case)).tier for case in cases[1:]] == [Tier.DEEP] * 2


async def test_a_wish_for_one_request_against_that_of_the_session_is_a_label(house, read):
    await serve(house, "plan the parser", headers={**AGENT, "x-tandem-tier": "deep", "x-tandem-scope": "session"})
    await serve(house, "Implement it", headers=AGENT)
    await serve(house, "rename it", headers={**AGENT, "x-tandem-tier": "fast"})

    cases, _ = await read()

    assert [case.regrets for case in cases] == [(), (), (RegretSign.OVERRODE,)]
    assert cases[2].size is Size.QUICK


@pytest.mark.parametrize(
    ("answers", "size"),
    [
        ([0], Size.QUICK),
        ([2_000], Size.QUICK),
        ([2_001], Size.MIDDLE),
        ([5_999], Size.MIDDLE),
        ([6_000], Size.LONG),
        ([3_000, 3_000], Size.LONG),
        ([100] * 20, Size.QUICK),
        ([None, 100], None),
        ([100, None], None),
        ([7_000, None], Size.LONG),
    ],
)
async def test_a_turn_is_as_long_as_what_all_its_answers_wrote_as_far_as_that_was_counted(house, read, answers, size):
    for number, output_tokens in enumerate(answers):
        await serve(house, "fix the typo", more=(CALL, RESULT) if number else (), headers=AGENT, output_tokens=output_tokens)

    ((case,), _) = await read()

    assert case.size is size


@pytest.mark.parametrize(("edits", "size"), [(2, Size.QUICK), (3, Size.MIDDLE), (5, Size.MIDDLE), (6, Size.LONG)])
async def test_a_turn_is_as_long_as_the_edits_before_its_last_call(house, read, edits, size):
    made = [
        {"id": f"c{number}", "type": "function", "function": {"name": "Edit", "arguments": "{}"}} for number in range(edits)
    ]
    done = [{"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in made]
    await serve(house, "fix the typo", headers=AGENT)
    await serve(house, "fix the typo", more=({"role": "assistant", "content": None, "tool_calls": made}, *done), headers=AGENT)

    ((case,), _) = await read()

    assert case.size is size


def misjudge(sequence: int, tier: str) -> str:
    """What `tandem wrong` leaves in the file, for the entry of that number."""
    into = "INSERT INTO misjudged (request_id, at, should_be)"
    return f"{into} SELECT id, at, '{tier}' FROM entries WHERE sequence = {sequence}"


@pytest.mark.parametrize(("tier", "size"), [("deep", Size.LONG), ("fast", Size.QUICK)])
@pytest.mark.parametrize("output_tokens", [100, 9_000, None])
async def test_a_turn_that_was_called_misjudged_is_what_the_person_said_and_counts_ten_times(
    house, read, tier, size, output_tokens
):
    await serve(house, "fix the typo", output_tokens=output_tokens)
    await serve(house, "fix the name")

    (marked, other), _ = await read(misjudge(1, tier))

    assert (marked.size, marked.weight) == (size, 10)
    assert (other.size, other.weight) == (Size.QUICK, 1)


async def test_the_word_on_a_turn_outweighs_the_tier_that_was_asked_for(house, read):
    await serve(house, "fix the typo", headers={"x-tandem-tier": "deep"})
    await serve(house, "fix the name")

    (marked, _), _ = await read(misjudge(1, "fast"))

    assert (marked.regrets, marked.size) == ((RegretSign.OVERRODE,), Size.QUICK)


async def test_without_a_tier_that_the_person_named_a_turn_is_what_its_work_was(house, read):
    await serve(house, "fix the typo")

    ((case,), _) = await read(misjudge(1, "turbo"))

    assert (case.size, case.weight) == (Size.QUICK, 1)


@pytest.mark.parametrize("outcome", [Outcome.CUT_SHORT, Outcome.ABANDONED, Outcome.INTERRUPTED])
async def test_work_that_broke_off_is_not_known_to_have_been_quick(house, read, outcome):
    await serve(house, "fix the typo", headers=AGENT)
    await serve(house, "fix the typo", more=(CALL, RESULT), headers=AGENT, outcome=outcome)

    ((case,), _) = await read()

    assert case.size is None
    assert (RegretSign.INTERRUPTED in case.regrets) is (outcome is not Outcome.CUT_SHORT)


async def test_work_that_went_on_after_it_was_cut_short_counts(house, read):
    await serve(house, "fix the typo", headers=AGENT, outcome=Outcome.CUT_SHORT)
    await serve(house, "fix the typo", more=(CALL, RESULT), headers=AGENT)

    ((case,), _) = await read()

    assert case.size is Size.QUICK


@pytest.mark.parametrize(
    "change",
    [
        "tier = 'medium'",
        "dialect = 'latin'",
        "decision = '{'",
        "decision = x'ff'",
    ],
)
async def test_an_entry_that_cannot_be_read_is_left_out_with_its_calls(house, read, change):
    await serve(house, "fix the name", headers=AGENT)
    await serve(house, "fix the typo", headers=AGENT)
    for _ in range(13):
        await serve(house, "fix the typo", more=(CALL, RESULT), headers=AGENT, output_tokens=1_000)

    cases, tally = await read(f"UPDATE entries SET {change} WHERE sequence = 2")

    assert [case.size for case in cases] == [Size.QUICK], "its calls are no other turn's"
    assert (tally.entries, tally.unreadable) == (15, 1)


@pytest.mark.parametrize(
    "change",
    [
        "client = 7, session = 9",
        "client = NULL",
        "tier = NULL",
        "prompt_text = '{'",
        "prompt_text = cast(x'ff' AS TEXT)",
    ],
)
async def test_an_entry_that_is_only_odd_is_read(house, read, change):
    await serve(house, "fix the typo", keeps_text=True)

    ((case,), tally) = await read(f"UPDATE entries SET {change}")

    assert tally.unreadable == 0
    assert await choose_again(quiet(house), case) is not None


@pytest.mark.parametrize("column", ["client", "prompt_text", "decision"])
async def test_a_ledger_without_one_of_our_columns_cannot_be_read(house, read, column):
    await serve(house, "fix the typo")

    with pytest.raises(StoreUnusable, match=column):
        await read(f"ALTER TABLE entries DROP COLUMN {column}")


async def test_an_entry_without_text_is_decided_again_as_it_was(house, read):
    then = [await serve(house, words, session=f"s{number}") for number, words in enumerate(WORDS)]

    cases, tally = await read()

    again = [await choose_again(quiet(house), case) for case in cases]
    assert tally.entries == len(WORDS)
    assert all(case.arrival is None for case in cases)
    assert [choice.tier for choice in again] == [decision.tier for decision in then] == [case.was for case in cases]
    assert [choice.score for choice in again] == pytest.approx([decision.score for decision in then], abs=0.002)


async def test_an_entry_with_text_is_read_as_a_whole_request(house, read):
    await serve(house, "fix the parser now", keeps_text=True)
    await serve(house, "fix the parser now", more=SAYS_WRONG, keeps_text=True)

    (first, second), _ = await read()

    assert first.arrival is not None is not second.arrival
    assert (first.words, first.regrets, first.size) == ("fix the parser now", (RegretSign.ASKED_AGAIN,), Size.LONG)
    assert (await choose_again(quiet(house), second)).kind == "ask"


async def test_a_tier_asked_for_now_and_then_is_the_persons_own_label(house, read):
    await serve(house, "fix the typo")
    await serve(house, "fix the typo in the name", headers={"x-tandem-tier": "deep"})
    await serve(house, "Implement the whole parser from scratch", headers={"x-tandem-tier": "fast"})

    (before, deep, fast), _ = await read()

    assert (before.regrets, before.size) == ((RegretSign.ASKED_FOR_DEEP,), Size.LONG)
    assert (deep.regrets, deep.size) == ((RegretSign.OVERRODE,), Size.LONG)
    assert (fast.regrets, fast.size) == ((RegretSign.OVERRODE,), Size.QUICK)
    assert (await choose_again(quiet(house), fast)).tier is Tier.FAST, "what was asked for cannot be decided otherwise"


async def test_a_turn_that_was_moved_up_while_it_ran_was_long(house, read):
    await serve(house, "fix the typo")
    await serve(house, "fix the typo", more=(CALL, RESULT), tier="deep")

    decided = """decision = replace(decision, '"tier":"fast"', '"tier":"deep"')"""
    ((case,), _) = await read(f"UPDATE entries SET {decided} WHERE sequence = 2")

    assert (case.was, case.regrets, case.size) == (Tier.FAST, (RegretSign.MOVED_UP,), Size.LONG)


async def test_a_tier_asked_for_in_every_turn_is_a_habit_and_no_label(house, read):
    for _ in range(2):
        await serve(house, "fix the typo", headers={"x-tandem-tier": "deep", "user-agent": "claude-cli/2"})

    cases, _ = await read()

    assert [(case.regrets, case.size) for case in cases] == [((), Size.QUICK)] * 2


def told(at: float | None, size: Size = Size.QUICK, session: str = "codex:s") -> Case:
    return Case(session, "codex", at, size, words="fix it")


def recorded(at: float, size: Size = Size.QUICK, *regrets: RegretSign, session: str = "codex:s") -> Case:
    return Case(session, "codex", at, size, regrets, was=Tier.FAST)
