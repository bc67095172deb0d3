"""Request → `Turn`: which client, whose session, what kind of request, and what the person typed."""

import hashlib
from collections.abc import Mapping
from functools import lru_cache

import orjson

from router.contract.request import Json, JsonObject, RequestView
from router.contract.signals import SessionHistory, Trajectory, Turn
from router.contract.words import PERSONS_KINDS, Feature, Operation, Tier, TurnKind
from router.dialects.table import SPECS
from router.sessions import clients
from router.sessions.clients import UNKNOWN_CLIENT, Client
from router.sessions.history import read_history
from router.sessions.trajectory import read_trajectory
from router.sessions.words import earlier_words, is_planning, last_user_message, opening_words, person_text

_MAX_FOLLOW_UPS = 5
_SYSTEM_HEAD = 400
_LAST_TEXT_STARTS = tuple(mark for mark, _ in clients.LAST_TEXT_MARKS)


def read_turn(view: RequestView, session_override: Tier | None = None) -> Turn:
    """Say whose turn a request is. Reads only the request itself."""
    client = _recognise(view)
    metadata = _turn_metadata(view)
    words = person_text(view.conversation, client) if SPECS[view.dialect].is_conversation else None
    kind = _read_kind(view, client, metadata, words)
    goes_on = kind is TurnKind.TOOL_LOOP or (
        kind is TurnKind.SUBAGENT and _structural_kind(view, client, words) is TurnKind.TOOL_LOOP
    )
    if kind is TurnKind.TOOL_LOOP or (kind is TurnKind.SUBAGENT and words is None):
        words = earlier_words(view.conversation, client)
    session = _read_session(view, client, metadata)
    is_persons = kind in PERSONS_KINDS
    return Turn(
        kind=kind,
        session=session or f"{client.name}:{_fingerprint(view, client)}",
        client=client.name,
        person_text=words if is_persons else None,
        ask_text=_find_ask(view, client, kind, words),
        is_planning=_says_plan(view) or is_planning(view.conversation),
        session_override=session_override,
        goes_on=goes_on,
        turn_id=_text(metadata.get("turn_id")),
        is_guessed=not session,
        history=read_history(view.conversation, client) if is_persons else SessionHistory(),
        trajectory=read_trajectory(view.conversation, client) if goes_on else Trajectory(),
        usual_efforts=client.default_efforts,
    )


def _find_ask(view: RequestView, client: Client, kind: TurnKind, words: str | None) -> str | None:
    """What the turn is about: past every "go on", the words that asked for something; for a subagent, what it was given."""
    if kind is TurnKind.SUBAGENT:
        return words
    if kind not in PERSONS_KINDS:
        return None
    for skip in range(_MAX_FOLLOW_UPS):
        if words is None or not is_follow_up(words):
            return words
        words = earlier_words(view.conversation, client, skip + 1)
    return words


def _recognise(view: RequestView) -> Client:
    known = _recognise_by_words(view.headers.get("user-agent", "")[:80], view.system[:_SYSTEM_HEAD])
    if known is not None:
        return known
    for name, client in clients.SESSION_HEADERS:
        if view.headers.get(name):
            return client
    return UNKNOWN_CLIENT


@lru_cache(maxsize=512)
def _recognise_by_words(agent: str, system: str) -> Client | None:
    for client in clients.CLIENTS:
        if client.agents and agent.startswith(client.agents):
            return client
    return next((client for client in clients.CLIENTS if client.systems and system.startswith(client.systems)), None)


@lru_cache(maxsize=512)
def _kind_by_system(head: str) -> TurnKind | None:
    for mark, kind in clients.SYSTEM_MARKS:
        if head.startswith(mark):
            return kind
    return next((kind for mark, kind in clients.SYSTEM_INNER_MARKS if mark in head), None)


def _read_kind(view: RequestView, client: Client, metadata: JsonObject, words: str | None) -> TurnKind:
    return (
        _stated_kind(view, metadata)
        or _marked_kind(view)
        or _structural_kind(view, client, words)
    )  # fmt: skip


def _stated_kind(view: RequestView, metadata: JsonObject) -> TurnKind | None:
    """What the client itself says that the request is."""
    if view.body.get("generate") is False:
        return TurnKind.PREWARM
    stated = clients.CODEX_KINDS.get(_text(metadata.get("request_kind")))
    if stated is None:
        stated = clients.CODEX_SOURCES.get(_text(metadata.get("thread_source")))
    if stated is not None:
        return stated
    for header, kind in clients.HEADER_MARKS:
        if view.headers.get(header):
            return kind
    return None


def _marked_kind(view: RequestView) -> TurnKind | None:
    """What canned words give away."""
    by_system = _kind_by_system(view.system[:_SYSTEM_HEAD])
    if by_system is not None:
        return by_system
    last = last_user_message(view.conversation)
    if last is not None:
        for text in last.texts:
            if text.startswith(_LAST_TEXT_STARTS):
                kind = next(kind for mark, kind in clients.LAST_TEXT_MARKS if text.startswith(mark))
                if kind is not TurnKind.SIDE or Feature.TOOLS not in view.needs:
                    return kind
    return None


def _structural_kind(view: RequestView, client: Client, words: str | None) -> TurnKind:
    """What the shape of the conversation says, for any client."""
    if not SPECS[view.dialect].is_conversation or view.operation is Operation.COUNT_TOKENS:
        return TurnKind.SIDE
    last = view.conversation[-1] if len(view.conversation) else None
    if words is None:
        # Nobody typed anything: a tool came back, or a notice did. A first message that is only an image is an ask.
        is_first = last is not None and last.role == "user" and not last.results and len(view.conversation) <= 2
        return TurnKind.ASK if is_first and view.image_count else TurnKind.TOOL_LOOP
    if client.result_mark and last is not None and last.texts and client.result_mark in last.texts[0][:200]:
        return TurnKind.TOOL_LOOP
    return TurnKind.FOLLOW_UP if is_follow_up(words) and len(view.conversation) > 2 else TurnKind.ASK


def is_follow_up(words: str) -> bool:
    """Whether these words only say "go on": a turn that inherits what the one before it was about."""
    if len(words) > 40:
        return False
    parts = words.lower().strip(" .!,…。！\"'").replace(",", " ").replace(".", " ").split()
    if not 0 < len(parts) <= clients.FOLLOW_UP_MOST_WORDS or clients.GOING_ON.isdisjoint(parts):
        return False
    return all(part in clients.GOING_ON or part in clients.AROUND_GOING_ON for part in parts)


def _says_plan(view: RequestView) -> bool:
    safeguards = view.body.get("safeguards")
    if not isinstance(safeguards, list) or not safeguards or not isinstance(safeguards[0], dict):
        return False
    context = safeguards[0].get("classifier_context")
    return isinstance(context, dict) and context.get("permission_mode") == "plan"


def _turn_metadata(view: RequestView) -> JsonObject:
    """Codex's turn metadata: a header over HTTP, a string inside `client_metadata` on every transport."""
    carried = view.body.get("client_metadata")
    text = view.headers.get("x-codex-turn-metadata")
    if not text and isinstance(carried, dict):
        text = _text(carried.get("x-codex-turn-metadata"))
    return _parse_object(text)


def _read_session(view: RequestView, client: Client, metadata: JsonObject) -> str:
    """The session's id, first that is there; empty where the client gives none. An empty id does not count."""
    if view.overrides.session:
        return f"x:{view.overrides.session}"
    found = _first_header(view.headers, client) or _text(metadata.get("thread_id")) or _field_session(view.body)
    return f"{client.name}:{found[:200]}" if found else ""


def _first_header(headers: Mapping[str, str], client: Client) -> str:
    for name in client.session_headers:
        value = headers.get(name)
        if value:
            return value
    return ""


def _field_session(body: JsonObject) -> str:
    metadata = body.get("metadata")
    if isinstance(metadata, dict):
        user = _parse_object(_text(metadata.get("user_id")))
        session = _text(user.get("session_id")) or _text(metadata.get("session_id"))
        if session:
            return session
    return _text(body.get("prompt_cache_key"))


def _fingerprint(view: RequestView, client: Client) -> str:
    """Caller and the person's first words. Sessions that begin alike are told apart by memory: only one goes on from it."""
    first = ""
    for index in range(min(len(view.conversation), 12)):
        message = view.conversation[index]
        if message.role == "user" and (first := opening_words(message, client)):
            break
    digest = hashlib.blake2b(f"{view.caller.name}\0{client.name}\0{first}".encode("utf-8", "replace"), digest_size=8)
    return f"~{digest.hexdigest()}"


def _parse_object(text: str | None) -> JsonObject:
    if not text:
        return {}
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""
