"""A reason may not contradict its tier, the message or the turn before. The rules are in `tests/walk/reasons.py`."""

import asyncio
import json
from collections import Counter
from itertools import chain

import pytest

from router.contract.errors import TandemError
from router.contract.exchange import Arrival
from router.contract.words import Dialect, Operation, TurnKind
from tests.walk.afternoons import MESSAGES, Afternoons, show
from tests.walk.reasons import RULES, Findings, Shown, find_contradictions

SESSIONS, SEED = 500, 25


@pytest.fixture
def afternoons(tmp_path) -> Afternoons:
    return Afternoons(tmp_path)


def chat(*said: str) -> Arrival:
    roles = ("user", "assistant")
    messages = [{"role": roles[number % 2], "content": text} for number, text in enumerate(said)]
    tools = [{"type": "function", "function": {"name": "shell", "parameters": {}}}]
    body = {"model": "auto", "messages": messages, "tools": tools}
    return Arrival("req_ask", Dialect.CHAT, Operation.CREATE, {}, json.dumps(body).encode())


async def decide_first(afternoons: Afternoons, words: str, meant: str = "") -> Shown:
    return show(await afternoons.house.decide(chat(words)), words, meant, frozenset(), True, frozenset(), "(first)")


@pytest.fixture(scope="module")
def decisions(tmp_path_factory) -> list[Shown]:
    afternoons = Afternoons(tmp_path_factory.mktemp("afternoons"))

    async def play() -> list[Shown]:
        return [shown for number in range(SESSIONS) for shown in [shown async for shown in afternoons.play(number, SEED)]]

    return asyncio.run(play())


def test_no_reason_contradicts_its_tier_in_generated_sessions(decisions):
    findings = Findings().add(decisions)

    assert findings.seen > 3_000
    assert not findings.found, findings.report()


def test_generated_sessions_hold_what_they_promise(decisions):
    """Both tiers, every kind of turn, follow-ups, tool loops, escalations, waits and warm caches."""
    assert {shown.tier for shown in decisions} == {"fast", "deep"}
    assert {shown.meant for shown in decisions} >= {*MESSAGES, "again"}
    assert {shown.kind for shown in decisions} >= {TurnKind.ASK, TurnKind.FOLLOW_UP, TurnKind.TOOL_LOOP}
    counts = Counter(shown.last_tiers for shown in decisions)
    assert all(counts[frozenset(tiers)] > 50 for tiers in (("fast",), ("deep",), ()))
    for words in ("is out for now", "only deep can serve this", "is done sooner"):
        assert any(words in shown.because for shown in decisions), words
    assert any((shown.cached_tokens or 0) > 8_000 for shown in decisions)


def test_no_reason_contradicts_its_tier_for_first_asks_written_here(afternoons):
    async def ask_all() -> Findings:
        return Findings().add([await decide_first(afternoons, words, meant) for meant in MESSAGES for words in MESSAGES[meant]])

    findings = asyncio.run(ask_all())

    assert not findings.found, findings.report()


@pytest.mark.shared
def test_no_reason_contradicts_its_tier_for_collected_asks(afternoons, shared):
    files = sorted((shared / "routing-data" / "asks").glob("*.jsonl"))
    asks = [json.loads(line) for line in chain.from_iterable(path.read_text().splitlines() for path in files)]

    async def ask_all() -> Findings:
        return Findings().add([await decide_first(afternoons, ask["text"]) for ask in asks[::4]])

    findings = asyncio.run(ask_all())

    assert findings.seen >= 800
    assert not findings.found, findings.report()


@pytest.mark.shared
def test_no_reason_contradicts_its_tier_in_what_clients_really_sent(afternoons, shared):
    async def send_all() -> Findings:
        findings = Findings()
        for entry in json.loads((shared / "wire" / "index.json").read_text()):
            if entry["method"] == "POST" and entry["purpose"] not in ("token_count", "model_list", "health_check"):
                findings.add(await send(json.loads((shared / "wire" / entry["file"]).read_text()), entry["file"]))
        return findings

    async def send(capture: dict, name: str) -> list[Shown]:
        dialect = next((each for end, each in DIALECTS.items() if end in capture["path"]), None)
        if dialect is None:
            return []
        headers = {key.lower(): value for key, value in capture["headers"].items()}
        try:
            decided, _ = await afternoons.serve(
                Arrival("req_wire", dialect, Operation.CREATE, headers, json.dumps(capture["body"]).encode())
            )
        except TandemError:
            return []  # a thread whose beginning was not sent
        position = decided.decision.turn.position
        last = frozenset({str(position.tier)} if position.tier and not position.is_running else ())
        return [show(decided, capture.get("user_text") or "", "", last, bool(last), frozenset(), f"({name})")]

    findings = asyncio.run(send_all())

    assert findings.seen >= 80
    assert not findings.found, findings.report()


DIALECTS = {"/chat/completions": Dialect.CHAT, "/responses": Dialect.RESPONSES, "/messages": Dialect.MESSAGES}
AFTER_FAST, AFTER_DEEP = frozenset({"fast"}), frozenset({"deep"})
FALSE = [
    Shown("bump it", "deep", "looks like a quick edit: bump"),
    Shown("what is x", "deep", "looks like a quick question: what is; looks like a small check"),
    Shown("migrate all", "fast", "looks like a long task: migrate, all"),
    Shown("add tests", "deep", "looks like a long task: tests", score=0.44),
    Shown("yes", "fast", "unclear; follows the last turn", last_tiers=AFTER_DEEP),
    Shown("yes", "fast", "unclear; follows the last turn"),
    Shown("hi", "fast", "nothing to do in this message"),
    Shown("why is it so", "fast", "looks like a quick edit: add", meant="question"),
    Shown("what is this?", "fast", "looks like a quick edit: text"),
    Shown("make it blue", "deep", "the last turn seems to have gone wrong", meant="edit", last_tiers=AFTER_FAST),
    Shown("still red", "deep", "you said the last turn went wrong", meant="correction", last_tiers=AFTER_DEEP),
    Shown("still red", "deep", "you said the last turn went wrong", meant="correction"),
    Shown("fix it", "deep", "unclear; the same ask again, after fast served it", was_last_served=False),
    Shown("x", "fast", "3 tool calls into a turn on deep", kind=TurnKind.TOOL_LOOP),
    Shown("x", "deep", "only fast can serve this: images"),
    Shown("x", "deep", "looks like a quick edit; fast is still done sooner"),
    Shown("x", "fast", "this turn was moved up to fast and stays there", kind=TurnKind.FOLLOW_UP),
    Shown("x", "fast", "unclear whether quick or long; 12k tokens are cached there", cached_tokens=3_000),
    Shown("x", "fast", "a side request of the client (title, commit message, completion)"),
]
TRUE = [
    Shown("bump it", "fast", "looks like a quick edit: bump"),
    Shown("bump it", "deep", "looks like a quick edit: bump; fast would not be done much sooner"),
    Shown("bump it", "deep", "looks like a quick edit; simulated-fast would keep you waiting 30 s, so deep is done sooner"),
    Shown("migrate all", "deep", "looks like a long task: migrate, all", score=0.9),
    Shown("add tests", "deep", "may be long (44 %; fast takes what is under 22 %): tests", score=0.44),
    Shown("migrate all", "fast", "looks like a long task; deep is out for now (sage: closed), so fast serves this"),
    Shown("yes", "deep", "unclear; follows the last turn", last_tiers=AFTER_DEEP),
    Shown(
        "still red",
        "deep",
        "you said the last turn went wrong, and fast had served it",
        meant="correction",
        last_tiers=AFTER_FAST,
    ),
    Shown("what is this?", "fast", "looks like a quick question: what is"),
    Shown("x", "fast", "3 tool calls into a turn on deep, but deep is out for now", kind=TurnKind.TOOL_LOOP),
    Shown("x", "deep", "unclear whether quick or long; 12k tokens are cached there", cached_tokens=12_400),
]


@pytest.mark.parametrize("shown", FALSE, ids=lambda shown: f"{shown.tier}: {shown.because[:40]}")
def test_a_reason_that_contradicts_is_found(shown):
    assert find_contradictions(shown)


@pytest.mark.parametrize("shown", TRUE, ids=lambda shown: f"{shown.tier}: {shown.because[:40]}")
def test_a_reason_that_holds_is_left_alone(shown):
    assert find_contradictions(shown) == []


def test_every_rule_has_a_reason_that_breaks_it():
    assert {name for shown in FALSE for name in find_contradictions(shown)} == set(RULES)


def test_a_report_names_each_rule_with_examples():
    report = Findings().add(FALSE[:1] * 4).report()

    assert "4 contradictions in 4 decisions" in report
    assert "deep: \"looks like a quick edit: bump\"  <- 'bump it'" in report
