"""Restores history, referenced items and our summaries that a request leaves out, in one pass and one rewrite."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from operator import is_
from typing import NamedTuple

from msgspec.structs import replace

from router.contract.caller import Caller
from router.contract.credential import WRITTEN_HERE
from router.contract.digits import with_digits
from router.contract.errors import BadRequest, ItemForgotten, ResponseForgotten
from router.contract.exchange import Exchange, HasBody, OffLoop
from router.contract.parts import LARGE_BYTES
from router.contract.request import Continuation, Json, JsonObject, RequestView, Transcript
from router.contract.stores import ResponseStore, StoredResponse
from router.contract.target import Target
from router.contract.words import Operation
from router.dialects.fields import as_list, as_object, as_text
from router.dialects.marks import holds
from router.dialects.requests import read_again
from router.dialects.responses.answer import is_our_id
from router.dialects.responses.request import CALLS, OPAQUE_ITEMS, without_link
from router.dialects.table import SPECS
from router.dialects.translate.envelope import MARK, SUMMARY_MARK
from router.responses.compact import ask_for_summary, open_summary, write_body
from router.responses.items import derive_id, input_items

PREVIOUS = "previous_response_id"
_NO_HISTORY = Transcript([], [])
_REFERENCE = "item_reference"
"""Names an earlier item, as the Vercel AI SDK does. Hosts know only their own, so references never leave us."""
_MARKS = _REFERENCE.encode(), SUMMARY_MARK.encode()
_Held = dict[str, tuple[Json, str]]
"""Items by id, each with the target that wrote it."""


async def restore_history(
    exchange: Exchange, view: RequestView, store: ResponseStore, targets: Mapping[str, Target]
) -> RequestView:
    """Restore what the request leaves out; for a compaction, add what to write. Most requests are complete.

    A socket has its own store. Raises `ResponseForgotten`, `ItemForgotten`.
    """
    if not SPECS[view.dialect].continues_responses:
        return view
    off_loop = exchange.off_loop
    if not (_may_leave_out(view) if len(view.raw) <= LARGE_BYTES else await off_loop(_may_leave_out, view)):
        return view
    sent, store = await off_loop(_read_exactly, view), exchange.arrival.responses or store
    whole = await _resume(view, sent, store, targets, off_loop)
    return view if whole is view else await off_loop(read_again, whole)


def _read_exactly(view: RequestView) -> JsonObject:
    return with_digits(view.raw, view.body)


def _may_leave_out(view: RequestView) -> bool:
    """Whether its bytes may name a response or item, ask for a summary, or hold one."""
    raw, body = view.raw, view.body
    if PREVIOUS in body or view.operation is Operation.COMPACT:
        return True
    items, (reference, summary) = body.get("input"), _MARKS
    return holds(raw, items, reference) or (holds(raw, items, MARK) and summary in raw)


async def _resume(
    view: RequestView, sent: JsonObject, store: ResponseStore, targets: Mapping[str, Target], off_loop: OffLoop
) -> RequestView:
    """Put the stored history before the input. `sent` is the body with all digits."""
    previous = _read_previous_id(sent)
    stored = await _find(previous, view, store, targets) if previous else None
    given = await _read_input(sent, view.caller, store, off_loop)
    is_compaction = view.operation is Operation.COMPACT
    if given is None and stored is None and not is_compaction:
        return view
    largest = view if stored is None or len(view.raw) > len(stored.raw) else stored
    return await off_loop(_continue, largest, view, sent, stored, given)


def _continue(
    largest: HasBody, view: RequestView, sent: JsonObject, stored: StoredResponse | None, given: Transcript | None
) -> RequestView:
    continued, previous = Continued(view.raw, sent, *_read_stored(stored), given), _read_previous_id(sent)
    body, is_large = continued.whole_body(reader=""), len(largest.raw) > LARGE_BYTES
    if view.operation is Operation.COMPACT:
        body = ask_for_summary(body)
        headers = {**view.headers, WRITTEN_HERE: "summary"}
        return replace(view, body=body, raw=write_body(body, is_large=is_large), operation=Operation.CREATE, headers=headers)
    if previous and stored is None:
        body = {**body, PREVIOUS: previous}
    elif stored is not None or any(continued.transcript().origins):
        view = replace(view, continued=continued)
    return replace(view, body=body, raw=write_body(body, is_large=is_large))


async def find_given(sent: JsonObject, caller: Caller, store: ResponseStore, off_loop: OffLoop) -> list[Json]:
    """All items that a request gives a model: those of the response that it continues, and its own, as far as they are kept."""
    previous = as_text(sent.get(PREVIOUS))
    stored = await store.find(previous, caller) if previous else None
    given = None
    with suppress(ItemForgotten):
        given = await _read_input(sent, caller, store, off_loop)
    return Continued(b"", sent, *_read_stored(stored), given).transcript().items


async def _read_input(sent: JsonObject, caller: Caller, store: ResponseStore, off_loop: OffLoop) -> Transcript | None:
    """The input with summaries opened and references resolved; None if unchanged."""
    items = input_items(sent)
    opened = [open_summary(item, index) for index, item in enumerate(items)]
    named = {
        index: as_text(item.get("id")) for index, item in enumerate(map(as_object, opened)) if item.get("type") == _REFERENCE
    }
    if not named and all(map(is_, opened, items)):
        return None
    found = await _find_items(named, store, caller, off_loop)
    pairs = [found[named[index]] if index in named else (item, "") for index, item in enumerate(opened)]
    return Transcript([item for item, _ in pairs], [origin for _, origin in pairs])


async def _find_items(named: dict[int, str], store: ResponseStore, caller: Caller, off_loop: OffLoop) -> _Held:
    """All items that an input names. The newest response usually holds every one. Raises `ItemForgotten`."""
    wanted, found = set(named.values()), _Held()
    while missing := wanted - found.keys():
        if found:
            await asyncio.sleep(0)  # a request may name items of a thousand responses: let others run
        holder = await store.find_holder(missing, caller)
        held = await off_loop(_items_of, holder) if holder is not None else _Held()
        found |= {name: held[name] for name in missing & held.keys()}
        if missing.isdisjoint(held):
            index = next(index for index, name in named.items() if name in missing)
            raise ItemForgotten(
                f"Item with id '{named[index][:80]}' not found: it may have expired, been deleted, or been created with"
                " store: false. Send the item itself",
                param=f"input[{index}].id",
            )
    return found


def _items_of(holder: StoredResponse) -> _Held:
    history, response = holder.read()
    whole = history.then(as_list(response.get("output")), holder.target)
    pairs = zip(whole.items, whole.origins, strict=True)
    return {name: (item, origin) for item, origin in pairs if (name := as_text(as_object(item).get("id")))}


def _read_previous_id(sent: JsonObject) -> str:
    value = sent.get(PREVIOUS)
    if value is not None and not isinstance(value, str):
        raise BadRequest(f"{PREVIOUS}: must be a string such as resp_…", param=PREVIOUS)
    return value or ""


async def _find(previous: str, view: RequestView, store: ResponseStore, targets: Mapping[str, Target]) -> StoredResponse | None:
    """The continued response; None if unknown here but perhaps known to a target."""
    stored = await store.find(previous, view.caller)
    if stored is not None:
        return stored
    may_know = view.operation is Operation.CREATE and any(map(_can_continue, targets.values()))
    if not may_know or await store.is_denied(previous, view.caller):
        raise ResponseForgotten(
            f"Previous response with id '{previous[:80]}' not found: it may have expired, been deleted, or been created"
            " with store: false. Send the whole conversation in input",
            param=PREVIOUS,
        )
    return None


def _can_continue(target: Target) -> bool:
    return any(SPECS[dialect].continues_responses for dialect in target.speaks)


def _read_stored(stored: StoredResponse | None) -> tuple[Transcript, str]:
    """The conversation up to a stored response, and the target that stores it too, or ""."""
    if stored is None:
        return _NO_HISTORY, ""
    earlier, response = stored.read()
    # Only a target that reports storing keeps its answer; one that ignores the id would silently lose the conversation.
    is_stored_there = response.get("store") is True and not is_our_id(stored.id)
    return earlier.then(as_list(response.get("output")), stored.target), stored.target if is_stored_there else ""


class Continued(NamedTuple):
    """A request that continues a stored response or names its items: as it came, and what it left out."""

    raw: bytes
    body: JsonObject
    history: Transcript
    stored_by: str
    """The target that reports storing the response; empty if none."""
    given: Transcript | None = None
    """The input with summaries opened and references resolved; None if unchanged."""

    def view_for(self, view: RequestView, target: Target) -> RequestView:
        """By reference if the target stores the history, else with its own items unchanged."""
        if target.name == self.stored_by and _can_continue(target):
            if self.given is None:
                return replace(view, raw=self.raw, body=self.body)
            body: JsonObject = {**self.body, "input": self._items_for(self._input(), target.name)}
        elif target.name not in self.transcript().origins:
            return view
        else:
            body = self.whole_body(target.name)
        return replace(view, raw=write_body(body), body=body)

    def without_reference(self) -> Continuation:
        """For a target that lost the stored history."""
        return self._replace(stored_by="")

    def transcript(self) -> Transcript:
        given = self._input()
        return Transcript(self.history.items + given.items, self.history.origins + given.origins)

    def whole_body(self, reader: str) -> JsonObject:
        """All items, as `reader` can take them."""
        kept = {name: value for name, value in self.body.items() if name != PREVIOUS}
        return {**kept, "input": self._items_for(self.transcript(), reader)}

    def _input(self) -> Transcript:
        return self.given or _NO_HISTORY.then(input_items(self.body), "")

    def _items_for(self, transcript: Transcript, reader: str) -> list[Json]:
        return _portable(transcript, reader)


def _portable(history: Transcript, reader: str) -> list[Json]:
    """Keep `reader`'s own items; drop hidden ones of other targets and unlink their ids.

    A host looks up ids it knows, and refuses a call or message without its reasoning.
    """
    items: list[Json] = []
    for value, origin in zip(history.items, history.origins, strict=True):
        item = as_object(value)
        kind = item.get("type") or "message"
        if not origin or origin == reader:
            items.append(value)
        elif kind in CALLS:
            items.append(without_link(item))
        elif kind == "message":
            items.append({**item, "id": derive_id("msg", as_text(item.get("id")), len(items))})
        elif kind not in OPAQUE_ITEMS:
            items.append(value)
    return items
