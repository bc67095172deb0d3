"""Message threads: Messages requests that leave their conversation to the router.

`thread: create` brings everything, `thread: continue` an answer's id and what is new. Targets always get the whole conversation
and never see the thread, so it can change target, tier and dialect.
"""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from router.contract.caller import Caller
from router.contract.errors import BadRequest, ThreadForgotten, ThreadMismatch, ThreadUnsupported
from router.contract.exchange import HasBody, OffLoop
from router.contract.request import Continuation, Json, JsonObject, RequestView, Transcript
from router.contract.stores import ResponseStore, StoredResponse
from router.contract.target import Target
from router.dialects.fields import as_list, as_object, as_text
from router.dialects.messages.request import without_opaque
from router.dialects.splice import replace_fields

THREAD = "thread"
_TYPE, _PREVIOUS = "type", "previous_message_id"
_FIELDS = {"create": frozenset({_TYPE}), "continue": frozenset({_TYPE, _PREVIOUS})}
_BETA_HEADER, _BETA, _BETA_START = "anthropic-beta", "message-threads-2026-08-12", "message-threads-"
_PINNED = ("system", "tools")
"""Fields kept from the request that created the thread; later ones omit them."""
_MESSAGES, _MARK = "messages", "cache_control"
_MAX_MARKS = 4
"""Hosts refuse more cache marks."""
_DEEPEST_MARK = 4
"""Marks are on a message's blocks, and on blocks in a tool result."""


async def resume_thread(view: RequestView, sent: JsonObject, store: ResponseStore, off_loop: OffLoop) -> RequestView:
    """The whole conversation for targets, without `thread` and its beta. `sent` is the body with all digits."""
    asked = sent.get(THREAD)
    if asked is None:
        return view
    previous = _read_thread(asked, view.headers)
    stored = await store.find(previous, keeper_of(view.caller)) if previous is not None else None
    return await off_loop(_resume, largest_of(view, stored), view, sent, previous, stored)


def largest_of(view: RequestView, stored: StoredResponse | None) -> HasBody:
    return view if stored is None or len(view.raw) > len(stored.raw) else stored


def _resume(
    _: HasBody, view: RequestView, sent: JsonObject, previous: str | None, stored: StoredResponse | None
) -> RequestView:
    headers = _without_beta(view.headers)
    if previous is None:
        pinned: JsonObject = {name: sent[name] for name in _PINNED if sent.get(name) is not None}
        thread = HeldThread(view.raw, sent, Transcript([], []), pinned, f"{THREAD}:{view.id}")
    else:
        thread = HeldThread(view.raw, sent, *_read_stored(previous, sent, stored))
    body, raw = thread.write_whole(reader="")
    return replace(view, body=body, raw=raw, headers=headers, continued=thread)


def _read_thread(asked: Json, headers: Mapping[str, str]) -> str | None:
    """Id of the message that it continues; None if it creates a thread."""
    if not isinstance(asked, dict):
        raise BadRequest(f'{THREAD}: must be an object such as {{"type": "create"}}', param=THREAD)
    kind = asked.get(_TYPE)
    if not isinstance(kind, str):
        raise BadRequest(f'{THREAD}.{_TYPE}: must be "create" or "continue"', param=f"{THREAD}.{_TYPE}")
    if kind not in _FIELDS:
        raise ThreadUnsupported(
            f'{THREAD}.{_TYPE}: must be "create" or "continue", not "{kind[:40]}"', param=f"{THREAD}.{_TYPE}"
        )
    if unknown := sorted(asked.keys() - _FIELDS[kind]):
        raise ThreadUnsupported(f'{THREAD}.{unknown[0][:40]}: unknown field for a thread of type "{kind}"', param=THREAD)
    if not any(map(_is_threads_beta, _betas(headers))):
        raise ThreadUnsupported(f"{THREAD}: needs the header {_BETA_HEADER}: {_BETA}", param=THREAD)
    if kind == "create":
        return None
    previous = asked.get(_PREVIOUS)
    if not isinstance(previous, str) or not previous:
        raise BadRequest(f"{THREAD}.{_PREVIOUS}: must be the id of an answer, such as msg_…", param=f"{THREAD}.{_PREVIOUS}")
    return previous


def _read_stored(previous: str, sent: JsonObject, stored: StoredResponse | None) -> tuple[Transcript, JsonObject, str]:
    """Conversation, pinned fields and session up to an answer."""
    if stored is None:
        raise ThreadForgotten(
            f"{THREAD}.{_PREVIOUS}: no thread is kept for '{previous[:80]}': it may have expired, or been created elsewhere."
            ' Send the whole conversation with thread: {"type": "create"}',
            param=f"{THREAD}.{_PREVIOUS}",
        )
    earlier, answer = stored.read()
    pinned = as_object(answer.get("pinned"))
    if changed := [name for name in _PINNED if sent.get(name) is not None and sent[name] != pinned.get(name)]:
        raise ThreadMismatch(
            f"{' and '.join(changed)}: a thread keeps what it was created with. Leave it out, or send the whole conversation"
            ' with thread: {"type": "create"}',
            param=changed[0],
        )
    return earlier.then(as_list(answer.get("output")), stored.target), pinned, as_text(answer.get("session"))


class HeldThread(NamedTuple):
    """A thread as one request finds it; a creating request left nothing out."""

    raw: bytes
    body: JsonObject
    history: Transcript
    pinned: JsonObject
    session: str
    """Its own, unless the creating request belonged to one: threads that begin alike stay apart."""

    @property
    def stored_by(self) -> str:
        return ""

    def view_for(self, view: RequestView, target: Target) -> RequestView:
        """A target gets back only its own hidden state."""
        if target.name not in self.history.origins:
            return view
        body, raw = self.write_whole(target.name)
        return replace(view, raw=raw, body=body)

    def without_reference(self) -> Continuation:
        return self

    def transcript(self) -> Transcript:
        return self.history.then(as_list(self.body.get(_MESSAGES)), "")

    def record(self, message: JsonObject, session: str) -> JsonObject:
        """An answer to store. `session` is the request's, if it turned out to have another."""
        content = as_list(message.get("content"))
        output: list[Json] = [{"role": "assistant", "content": content}] if content else []  # hosts refuse an empty message
        return {"id": message["id"], "output": output, "pinned": self.pinned, "session": session or self.session}

    def write_whole(self, reader: str) -> tuple[JsonObject, bytes]:
        """The whole body, as `reader` can take it, also as bytes."""
        changes: JsonObject = {THREAD: None}
        if self.history.items:
            new = as_list(self.body.get(_MESSAGES))
            given: list[Json] = [new, [self.body], *(self.pinned.get(name) for name in _PINNED)]
            room = _MAX_MARKS - sum(map(_count_marks, given))
            whole = [*_limit_marks(_portable(self.history, reader), room), *new]
            changes |= {**self.pinned, _MESSAGES: whole}
        body = {name: value for name, value in {**self.body, **changes}.items() if name != THREAD}
        return body, replace_fields(self.raw, self.body, changes)


def keeper_of(caller: Caller) -> Caller:
    """A store key of the caller's threads, apart from its responses: no Responses route uses it."""
    return Caller(f"{caller.name}\0threads")


def _portable(history: Transcript, reader: str) -> list[Json]:
    items: list[Json] = []
    for message, origin in zip(history.items, history.origins, strict=True):
        items += [message] if not origin or origin == reader else without_opaque([message], lambda key: True)
    return items


def _betas(headers: Mapping[str, str]) -> list[str]:
    return [name for part in headers.get(_BETA_HEADER, "").split(",") if (name := part.strip())]


def _is_threads_beta(name: str) -> bool:
    return name.startswith(_BETA_START)


def _without_beta(headers: Mapping[str, str]) -> Mapping[str, str]:
    """The headers without this beta, which is meaningless without `thread` and unknown to some hosts."""
    others = [name for name in _betas(headers) if not _is_threads_beta(name)]
    kept = {name: value for name, value in headers.items() if name != _BETA_HEADER}
    return {**kept, _BETA_HEADER: ",".join(others)} if others else kept


def _limit_marks(messages: list[Json], room: int) -> list[Json]:
    """Keep the newest cache marks that there is room for: a thread's requests have too many together."""
    kept: list[Json] = []
    for message in reversed(messages):
        marks = _count_marks([message])
        kept.append(message if marks <= room else _without_marks(message))
        room -= marks if marks <= room else 0
    return kept[::-1]


def _count_marks(blocks: Json, depth: int = 0) -> int:
    found = [as_object(block) for block in as_list(blocks)] if depth < _DEEPEST_MARK else []
    return sum(bool(block.get(_MARK)) + _count_marks(block.get("content"), depth + 1) for block in found)


def _without_marks(value: Json, depth: int = 0) -> Json:
    if not isinstance(value, dict) or depth >= _DEEPEST_MARK:
        return value
    content, kept = value.get("content"), {name: field for name, field in value.items() if name != _MARK}
    if not isinstance(content, list):
        return kept
    return {**kept, "content": [_without_marks(block, depth + 1) for block in content]}
