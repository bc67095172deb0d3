"""A past turn → its first request, to be read and sensed as in serving."""

from collections.abc import Sequence

import orjson

from router.contract.exchange import Arrival
from router.contract.request import NOW, Json, JsonObject, Moment
from router.contract.words import DEFAULT_DIALECT, Operation
from router.past.history import PastSession, PastTurn
from router.sense.tokens import estimate_tokens
from router.sessions.clients import ANY_PLAN, BY_NAME, UNKNOWN_CLIENT

_MAX_TURNS = 200
_MAX_EARLIER_WORDS = 2_000
_MAX_FILLING_CHARS = 4 << 20
_MAX_UNCOUNTED_TOKENS = 100_000
"""Longest prompt if a log counts no tokens: clients compact before the window is full, often unlogged."""
_MAX_SESSION_CHARS = 200
_FILLING = "The text of tools, files and answers that stood here, as much of it as there was. "
_TOKENS_PER_CHAR = estimate_tokens(_FILLING.encode() * 100) / (len(_FILLING) * 100)
_TOOLS: list[Json] = [{"type": "function", "function": {"name": "shell", "parameters": {"type": "object"}}}]


def write_request(session: PastSession, index: int) -> Arrival:
    """The person's words after the turns still remembered."""
    turn = session.turns[index]
    earlier = session.turns[max(turn.remembers_from, index - _MAX_TURNS) : index]
    messages: list[Json] = [message for past in earlier for message in _write_turn(past)]
    messages.append({"role": "user", "content": turn.words})
    if turn.is_planning:
        messages.append(_write_plan_mode(session.client))
    lead, tools = write_lead(session.client)
    filling = _fill(turn, len(lead) + sum(len(past.words) for past in earlier) + len(turn.words))
    body: JsonObject = {"model": "auto", "messages": [{"role": "system", "content": f"{lead}{filling}"}, *messages]}
    if tools:
        body["tools"] = tools
    if turn.effort:
        body["reasoning_effort"] = turn.effort
    headers = write_headers(session.client, session.id)
    moment = Moment(turn.at) if turn.at is not None else NOW
    return Arrival("req_replay", DEFAULT_DIALECT, Operation.CREATE, headers, orjson.dumps(body), moment=moment)


def write_lead(client: str) -> tuple[str, list[Json]]:
    """The relevant start of a client's system prompt, and its tools."""
    row = BY_NAME.get(client, UNKNOWN_CLIENT)
    return ("", _TOOLS) if row.calls_tools else (f"{row.systems[0]}. ", [])


def _write_plan_mode(client: str) -> JsonObject:
    """The client's own mark of plan mode."""
    plan = BY_NAME.get(client, UNKNOWN_CLIENT).plan
    return {"role": "system", "content": ((plan and plan.on) or ANY_PLAN.on)[0]}


def write_headers(client: str, session: str) -> dict[str, str]:
    """Headers that identify the client and its session."""
    agents = BY_NAME.get(client, UNKNOWN_CLIENT).agents
    name = "".join(filter(str.isprintable, f"replay-{session}"))[:_MAX_SESSION_CHARS]
    return {"user-agent": agents[0] if agents else "", "x-tandem-session": name}


def _write_turn(turn: PastTurn) -> Sequence[JsonObject]:
    calls: list[Json] = [
        {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": ""}}
        for number, name in enumerate(turn.calls)
    ]
    answer: JsonObject = {"role": "assistant", "content": "Done."}
    if calls:
        answer["tool_calls"] = calls
    return ({"role": "user", "content": turn.words[:_MAX_EARLIER_WORDS]}, answer)


def _fill(turn: PastTurn, written_chars: int) -> str:
    """Filler for text that is not kept: only its length matters."""
    if turn.prompt_tokens is None:
        wanted = min(turn.text_chars, round(_MAX_UNCOUNTED_TOKENS / _TOKENS_PER_CHAR))
    else:
        wanted = round(turn.prompt_tokens / _TOKENS_PER_CHAR)
    length = min(max(0, wanted - written_chars), _MAX_FILLING_CHARS)
    return (_FILLING * (length // len(_FILLING) + 1))[:length]
