"""Request → `Turn`: client, session, kind, and the person's words."""

import hashlib
from functools import lru_cache

from router.contract.features import SHORT_CHARS
from router.contract.request import Conversation, Message, RequestView
from router.contract.secret import mask_keys
from router.contract.signals import SessionHistory, Trajectory, Turn
from router.contract.words import PERSONS_KINDS, Feature, Operation, TurnKind
from router.dialects.fields import as_text
from router.dialects.table import SPECS
from router.sessions import clients
from router.sessions.clients import ANY_PLAN, UNKNOWN_CLIENT, Client, Stated
from router.sessions.history import ONE_MESSAGE, History, read_history
from router.sessions.plan_mode import is_planning
from router.sessions.tier_line import LINE_STARTS, find_line
from router.sessions.trajectory import read_trajectory
from router.sessions.words import opening_words, read_end

_MAX_FOLLOW_UPS = 5
_ON_AND_ON = (TurnKind.TOOL_LOOP, TurnKind.SUBAGENT)
"""Kinds that may continue a turn after a tool's result."""
_SYSTEM_HEAD = 400
_MAX_GOING_ON = 40
_SHORT_CHARS = 2_000
_LAST_TEXT_STARTS = tuple(mark for mark, _ in clients.LAST_TEXT_MARKS)
_SESSION_HEADERS = frozenset(name for name, _ in clients.SESSION_HEADERS)
TELLING_HEADERS = _SESSION_HEADERS.union(
    (header for header, _ in clients.HEADER_MARKS), *(client.telling_headers for client in clients.CLIENTS)
)
_TELLING_FIELDS = frozenset({"generate", "prompt_cache_key"}).union(*(client.telling_fields for client in clients.CLIENTS))
"""Where clients describe a request. Most do not, and skip the lookup."""
_NOTHING_STATED = Stated()
_GOING_ON = frozenset(
    """
    sounds approved agreed yes y yep yeah yup sure
    continue go proceed next resume again retry more do carry keep weiter ja los mach oui vas-y
    continuez sí si adelante continúa sigue sim continua да продолжай давай はい 続けて お願いします 继续 是 是的 可以 계속 네
    """.split()
)
"""Words of a "go on", which inherits the subject of the turn before."""
_AROUND_GOING_ON = frozenset(
    "ok okay please it on ahead going that so good looks lgtm perfect great thanks thank you stp vale 好 好的".split()
)
"""Words that may accompany those."""
_MAX_GOING_ON_WORDS = 4
_ASK, _COUNT = TurnKind.ASK, Operation.COUNT_TOKENS
_NO_HISTORY, _NO_TRAJECTORY = SessionHistory(), Trajectory()


def read_turn(view: RequestView, hears_lines: bool = True) -> Turn:
    conversation = view.conversation
    client, by_system = _recognise(view)
    stated = _read_stated(view, client)
    end = read_end(conversation, client)
    words = end.words
    if words and len(conversation.items) == 1:
        told = ONE_MESSAGE
    else:
        told = read_history(conversation, client, SPECS[view.dialect].silent)
    kind = told_kind = stated.kind or by_system
    if kind is None or kind is TurnKind.SUBAGENT:  # may also be compacted or asked for a label
        kind = _marked_kind(view, end.message) or kind or _structural_kind(view, words)
    session = f"x:{view.overrides.session}" if view.overrides.session else stated.session
    compacted_ask, goes_on, goes_on_after, only_reads = None, False, "", False
    history, trajectory = _NO_HISTORY, _NO_TRAJECTORY
    said, line = "", None
    if kind in _ON_AND_ON:
        goes_on = kind is TurnKind.TOOL_LOOP or _structural_kind(view, words) is TurnKind.TOOL_LOOP
        if kind is TurnKind.TOOL_LOOP or words is None:
            words = told.find_words(conversation, client)
        if goes_on:
            goes_on_after = _find_interruption(end.message)
            trajectory = read_trajectory(told.work, len(conversation.items))
    if kind in PERSONS_KINDS:
        asked = _find_ask(conversation, client, words, told)
        if hears_lines and (told.last or (words and words[0] in LINE_STARTS)):
            line = find_line(view, client, kind, words, told)
        if told.turns:
            history = told.as_session()
            if words and len(words) <= SHORT_CHARS:
                said = told.find_said(conversation)
    else:
        asked, words = words if kind is TurnKind.SUBAGENT else None, None
        only_reads = kind is TurnKind.SUBAGENT and clients.SEARCHER in view.system[:_SYSTEM_HEAD]
        if kind is TurnKind.COMPACTION and told_kind is not TurnKind.SUBAGENT:
            compacted_ask = told.find_words(conversation, client)
    return Turn(
        kind,
        session or _guess_session(view, client, told),
        client.name,
        person_text=words,
        ask_text=asked,
        is_planning=bool(is_planning(view, client.plan or ANY_PLAN)),
        goes_on=goes_on,
        goes_on_after=goes_on_after,
        compacted_ask=compacted_ask,
        only_reads=only_reads,
        turn_id=stated.turn_id,
        is_guessed=not session,
        history=history,
        trajectory=trajectory,
        usual_efforts=client.default_efforts,
        said=said,
        line=line,
    )


def _find_interruption(last: Message | None) -> str:
    """What interrupted a turn whose last message is the client's; empty after a tool's result."""
    if last is None or last.results or not last.texts:
        return ""
    starts = clients.RESUMED_AFTER
    return next((name for text in last.texts for start, name in starts if text.lstrip().startswith(start)), "a notice")


def _find_ask(conversation: Conversation, client: Client, words: str | None, told: History) -> str | None:
    """The last words that are not a "go on"."""
    skip = 0
    while words is not None and is_follow_up(words) and skip < _MAX_FOLLOW_UPS:
        skip += 1
        words = told.find_words(conversation, client, skip)
    return words


def _recognise(view: RequestView) -> tuple[Client, TurnKind | None]:
    headers = view.headers
    known, kind = _recognise_by_words(headers.get("user-agent", "")[:80], view.system[:_SYSTEM_HEAD])
    if known is None and not _SESSION_HEADERS.isdisjoint(headers):
        known = next((client for name, client in clients.SESSION_HEADERS if headers.get(name)), None)
    return known or UNKNOWN_CLIENT, kind


@lru_cache(maxsize=512)
def _recognise_by_words(agent: str, system: str) -> tuple[Client | None, TurnKind | None]:
    by_agent = (client for client in clients.CLIENTS if client.agents and agent.startswith(client.agents))
    by_system = (client for client in clients.CLIENTS if client.systems and system.startswith(client.systems))
    kinds = [kind for mark, kind in clients.SYSTEM_MARKS if system.startswith(mark)]
    kinds += [kind for mark, kind in clients.SYSTEM_INNER_MARKS if mark in system]
    return next(by_agent, None) or next(by_system, None), kinds[0] if kinds else None


def _read_stated(view: RequestView, client: Client) -> Stated:
    if TELLING_HEADERS.isdisjoint(view.headers) and _TELLING_FIELDS.isdisjoint(view.body):
        return _NOTHING_STATED
    headers, body, said = view.headers, view.body, [read(view) for read in clients.STATED_READERS]
    names = (*(headers.get(name) for name in client.session_headers), *(stated.session for stated in said))
    session = next(filter(None, names), "") or as_text(body.get("prompt_cache_key"))
    return Stated(
        _stated_kind(view, said),
        f"{client.name}:{mask_keys(session[:200])}" if session else "",  # an empty id does not count
        next((stated.turn_id for stated in said if stated.turn_id), ""),
    )


def _stated_kind(view: RequestView, said: list[Stated]) -> TurnKind | None:
    if view.body.get("generate") is False:
        return TurnKind.PREWARM
    if SPECS[view.dialect].read_limit(view.body) == 1:
        return TurnKind.SIDE  # with a limit of one token the client only checks that the model is there
    stated = next((stated.kind for stated in said if stated.kind is not None), None)
    return stated or next((kind for header, kind in clients.HEADER_MARKS if view.headers.get(header)), None)


def _marked_kind(view: RequestView, last: Message | None) -> TurnKind | None:
    for text in last.texts if last is not None else ():
        if text.startswith(_LAST_TEXT_STARTS):
            kind = next(kind for mark, kind in clients.LAST_TEXT_MARKS if text.startswith(mark))
            if kind is not TurnKind.SIDE or Feature.TOOLS not in view.needs or text.startswith(clients.SIDE_WITH_TOOLS):
                return kind
    return None


def _structural_kind(view: RequestView, words: str | None) -> TurnKind:
    if not SPECS[view.dialect].is_conversation or view.operation is _COUNT:
        return TurnKind.SIDE
    conversation = view.conversation
    count = len(conversation.items)
    if words is None:
        # Nothing was typed: this follows a tool or a notice. A first message with only an image is an ask.
        is_first = 0 < count <= 2 and conversation[-1].role == "user" and not conversation[-1].results
        return TurnKind.ASK if is_first and view.image_count else TurnKind.TOOL_LOOP
    return TurnKind.FOLLOW_UP if is_follow_up(words) and (count > 2 or _was_compacted(conversation)) else _ASK


def _was_compacted(conversation: Conversation) -> bool:
    texts = conversation[0].texts
    return bool(texts) and texts[0].startswith(clients.SUMMARIES)


def is_follow_up(words: str) -> bool:
    return len(words) <= _MAX_GOING_ON and _only_goes_on(words)


@lru_cache(maxsize=512)
def _only_goes_on(words: str) -> bool:
    parts = words.lower().strip(" .!,…。！\"'").replace(",", " ").replace(".", " ").split()
    if not 0 < len(parts) <= _MAX_GOING_ON_WORDS or _GOING_ON.isdisjoint(parts):
        return False
    return all(part in _GOING_ON or part in _AROUND_GOING_ON for part in parts)


def _guess_session(view: RequestView, client: Client, told: History) -> str:
    """Name a session by caller and first words. Memory separates sessions that begin alike: only one continues it."""
    index = told.first_at
    if index is None:
        return f"{client.name}:~{view.id}"  # unidentified, so a session of its own
    first = opening_words(view.conversation.messages[index], client)
    name = _name_short if len(first) <= _SHORT_CHARS else _name_guess
    return name(view.caller.name, client.name, first)


def _name_guess(caller: str, client: str, first: str) -> str:
    digest = hashlib.blake2b(f"{caller}\0{client}\0{first}".encode("utf-8", "replace"), digest_size=8)
    return f"{client}:~{digest.hexdigest()}"


_name_short = lru_cache(maxsize=512)(_name_guess)
