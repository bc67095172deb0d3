"""A request that continues a stored response: the history that it left out, put together for the target that will read it."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from router.contract.digits import with_digits
from router.contract.errors import BadRequest, ResponseForgotten
from router.contract.exchange import Exchange, OffLoop, work_here
from router.contract.request import Continuation, Json, JsonObject, RequestView, Transcript
from router.contract.stores import ResponseStore, StoredResponse
from router.contract.target import Target
from router.contract.words import Operation
from router.dialects.fields import as_list, as_object, as_text
from router.dialects.requests import read_again
from router.dialects.responses.compose import is_our_id
from router.dialects.responses.request import CALLS, OPAQUE_ITEMS, without_link
from router.dialects.table import SPECS
from router.responses.compact import ask_for_summary, may_hold_summaries, open_summaries, with_items, write_body
from router.responses.items import derive_id, input_items
from router.responses.references import look_up, may_name_items
from router.responses.threads import THREAD, resume_thread

PREVIOUS = "previous_response_id"
_LEFT_OUT = frozenset({PREVIOUS, THREAD})
"""Fields of requests that leave something out. In another dialect's request they mean nothing."""
_NO_HISTORY = Transcript([], [])


async def restore_history(
    exchange: Exchange, view: RequestView, store: ResponseStore, targets: Mapping[str, Target]
) -> RequestView:
    """The request with the history that it leaves out, and for a compaction with what is to be written.

    Most leave out nothing, and are returned as they are. A socket has a store of its own.
    """
    spec = SPECS[view.dialect]
    if _LEFT_OUT.isdisjoint(view.body) and not (spec.continues_responses and _may_leave_out(view)):
        return view
    view, store = open_summaries(view), exchange.arrival.responses or store
    return ask_for_summary(
        await (resume_thread(view, store) if spec.has_threads else resume(view, store, targets.values(), exchange.off_loop))
    )


def _may_leave_out(view: RequestView) -> bool:
    """Whether a request asks for a summary, or may hold one of ours or name an item, as its bytes show."""
    return view.operation is Operation.COMPACT or may_hold_summaries(view) or may_name_items(view)


async def resume(
    view: RequestView, store: ResponseStore, targets: Iterable[Target], off_loop: OffLoop = work_here
) -> RequestView:
    """The request with the stored history before it, and with the items that it names. Raises `ItemForgotten`.

    A response that is unknown here may still be known to a target.
    """
    if not SPECS[view.dialect].continues_responses:
        return view
    previous, given = _read_previous_id(view), await look_up(view, store, off_loop)
    if previous is None:
        return view if given is None else _hold(view, "", _NO_HISTORY, given)
    stored = await store.find(previous, view.caller)
    if stored is not None:
        return _continue(view, stored, given)
    may_know = any(_can_continue(target) for target in targets)
    if view.operation is not Operation.CREATE or not may_know or await store.is_denied(previous, view.caller):
        raise ResponseForgotten(
            f"Previous response with id '{previous[:80]}' not found: it may have expired, been deleted, or been created"
            " with store: false. Send the whole conversation in input",
            param=PREVIOUS,
        )
    return view if given is None else with_items(view, _portable(given, reader=""))


def _can_continue(target: Target) -> bool:
    """Whether a target may know a response by its id."""
    return any(SPECS[dialect].continues_responses for dialect in target.speaks)


def _read_previous_id(view: RequestView) -> str | None:
    value = view.body.get(PREVIOUS)
    if value is not None and not isinstance(value, str):
        raise BadRequest(f"{PREVIOUS}: must be a string such as resp_…", param=PREVIOUS)
    return value or None


def _continue(view: RequestView, stored: StoredResponse, given: Transcript | None) -> RequestView:
    earlier, response = stored.read()
    history = earlier.then(as_list(response.get("output")), stored.target)
    # Only a target that says so keeps what it answered; one that ignores the id would lose the conversation without a word.
    is_stored_there = response.get("store") is True and not is_our_id(stored.id)
    return _hold(view, stored.target if is_stored_there else "", history, given)


def _hold(view: RequestView, stored_by: str, history: Transcript, given: Transcript | None) -> RequestView:
    """The request with its whole conversation, so that everyone who reads it sees all of it."""
    continued = Continued(view.raw, with_digits(view.raw, view.body), stored_by, history, given)
    body = continued.whole_body(reader="")
    return replace(read_again(view, body, write_body(body)), continued=continued)


class Continued(NamedTuple):
    """A request that continues a stored response, or names items of one: as it came, and what it left out."""

    raw: bytes
    body: JsonObject
    stored_by: str
    """The target that says it stores that response itself; empty when none does."""
    history: Transcript
    given: Transcript | None = None
    """The input with the items that it names. None where it names none: then the body has it."""
    session: str = ""
    """It is told from the whole conversation."""

    def view_for(self, view: RequestView, target: Target) -> RequestView:
        """By reference where the target stores the history itself, else with its own items as they are."""
        if target.name == self.stored_by and _can_continue(target):
            if self.given is None:
                return replace(view, raw=self.raw, body=self.body)
            body: JsonObject = {**self.body, "input": _portable(self.given, target.name)}
        elif target.name not in self.transcript().origins:
            return view
        else:
            body = self.whole_body(target.name)
        return replace(view, raw=write_body(body), body=body)

    def without_reference(self) -> Continuation:
        """Used when the target that was to store the history has lost it."""
        return self._replace(stored_by="")

    def transcript(self) -> Transcript:
        if self.given is None:
            return self.history.then(input_items(self.body), "")
        return Transcript(self.history.items + self.given.items, self.history.origins + self.given.origins)

    def whole_body(self, reader: str) -> JsonObject:
        """The body with all items, as `reader` can take them."""
        items = _portable(self.transcript(), reader)
        return {**{name: value for name, value in self.body.items() if name != PREVIOUS}, "input": items}


def _portable(history: Transcript, reader: str) -> list[Json]:
    """The items as `reader` can take them. Its own stay as they are; of another's, hidden ones go and ids are unlinked.

    A host that knows an id looks up what stood beside it, and refuses a call or message whose reasoning is not there.
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
