"""Described turns, sent call by call as a client would: `tandem explain --after`.

Every request is decided and remembered as served, so that the last one finds the session as in a router. No target is called.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import orjson

from router.contract.decision import Decision
from router.contract.entry import Attempt
from router.contract.exchange import Arrival, Deadline, Exchange, Link, Observers, Part
from router.contract.facts import AttemptEnded, Decided, Ending, FirstByte, Settled
from router.contract.features import MARKS
from router.contract.request import Json, JsonObject
from router.contract.words import DEFAULT_DIALECT, Operation, Outcome, Tier
from router.house import House
from router.past.requests import write_headers, write_lead
from router.telemetry.log import report_defect

_LIKELY = 0.5
_QUESTION = list(MARKS).index("ends_with_question")
_ASKS_FOR_WORDS = re.compile(
    r"\s*(?:what|why|where|which|how|is|are|does|did|should|explain|plan|outline|propose|suggest|sketch|describe)\b"
    r"|.*\b(?:plan only|only (?:a |the )?plan|just (?:a |the )?plan|nur (?:ein(?:en)? |den )?plan)\b"
    r"|.*\b(?:no code|kein(?:en)? code|don'?t (?:write|implement|code) (?:it|anything))(?: yet)?\W*$",
    re.IGNORECASE | re.DOTALL,
)
"""A plan or a question: no file changes."""
_QUESTIONS = frozenset(("what", "how to", "why", "where", "which", "difference", "explain", "meaning"))
"""Concepts that open a question, in any known language."""


class AssumedTurn(NamedTuple):
    """Assumed size of an earlier turn, and its last tier."""

    calls: int
    edits: int
    tier: Tier


# Medians of recorded turns of coding agents (SpecStory logs in public repositories): 208 quick questions took 2 calls; 195 long
# tasks with logged edits took 26 calls, 8 of them edits (a quarter up to 15 calls, a quarter 63 and more). A quick edit is
# taken as its minimum, a look and a change.
_NOTHING, _QUESTION_WORK, _QUICK_WORK, _LONG_WORK = (0, 0), (2, 0), (2, 1), (26, 8)


async def rehearse(
    house: House, client: str, texts: Sequence[str], calls: Sequence[int] = ()
) -> tuple[Arrival, tuple[AssumedTurn, ...]]:
    """The request of the last text after earlier turns, each of so many `calls`. Raises what the road raises."""
    session = Conversation(house, client)
    assumed: list[AssumedTurn] = []
    for number, text in enumerate(texts[:-1]):
        assumed.append(await session.take_turn(text, calls[number] if calls else None))
    return session.ask(texts[-1]), tuple(assumed)


class Conversation:
    """A growing conversation, in the shape that all clients share."""

    def __init__(self, house: House, client: str, session: str = "dry-run") -> None:
        self._house = house
        self._headers = write_headers(client, session)
        lead, self._tools = write_lead(client)
        self._messages: list[Json] = [{"role": "system", "content": lead}]
        self._made = 0

    def ask(self, text: str) -> Arrival:
        self._messages.append({"role": "user", "content": text})
        return self._request()

    async def take_turn(self, text: str, chosen_calls: int | None, said: str = "Done.") -> AssumedTurn:
        decision = await serve(self._house, self.ask(text))
        calls, edits = assume_work(decision)
        if not self._tools:
            calls = edits = 0
        elif chosen_calls is not None:
            calls, edits = chosen_calls, round(chosen_calls * edits / calls) if calls else 0
        for number in range(calls):
            self._call(is_edit=number >= calls - edits)
            decision = await serve(self._house, self._request())
        self._messages.append({"role": "assistant", "content": said})
        return AssumedTurn(calls, edits, decision.tier)

    def _call(self, *, is_edit: bool) -> None:
        """One call and its result: looks come first, and each edit is of another file."""
        self._made += 1
        name = "edit_file" if is_edit else "read_file"
        arguments = orjson.dumps({"path": f"src/part_{self._made}.py"}).decode()
        call: JsonObject = {"id": f"c{self._made}", "type": "function", "function": {"name": name, "arguments": arguments}}
        self._messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        self._messages.append({"role": "tool", "tool_call_id": f"c{self._made}", "content": "ok"})

    def _request(self) -> Arrival:
        body: JsonObject = {"model": "auto", "messages": self._messages}
        if self._tools:
            body["tools"] = self._tools
        return Arrival("req_dry_run", DEFAULT_DIALECT, Operation.CREATE, self._headers, orjson.dumps(body))


async def serve(house: House, arrival: Arrival) -> Decision:
    """Decide, and note the request in session memory as served."""
    decided: Decided = await house.decide(arrival)
    target, now = house.plan.targets[decided.decision.targets[0]], house.clock()
    observers = Observers((Link(Part.SESSIONS, house.state.memory),), report_defect)
    exchange = Exchange(arrival, now, Deadline(now), observers)
    exchange.note(decided)
    exchange.note(FirstByte(target))
    exchange.note(AttemptEnded(now, target, Attempt(target.name, 200, None, 0.0), None, None, None))
    exchange.note(Settled(now, Ending(Outcome.SERVED, 200)))
    return decided.decision


def assume_work(decision: Decision) -> tuple[int, int]:
    """Usual calls of a turn of these words, and how many of them edit."""
    features, looks = decision.signals.features, decision.opinions.looks
    if features is None or (not features.has_task and not (looks is not None and looks.points_back)):
        return _NOTHING
    words = decision.turn.person_text or ""
    if decision.turn.is_planning or _ASKS_FOR_WORDS.match(words):
        return _QUESTION_WORK
    if decision.score >= _LIKELY:
        return _LONG_WORK
    is_question = features.marks[_QUESTION] or any(phrase in _QUESTIONS for phrase, *_ in features.concepts[:1])
    return _QUESTION_WORK if is_question else _QUICK_WORK
