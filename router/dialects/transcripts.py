"""Responses that go on from one another: the history a request left out, put together for the target that will read it.

No store lives here; `sessions` and `ledger` keep transcripts, and `dispatch` asks for the form that one target is to see.
"""

import hashlib
from collections.abc import Sequence

import orjson

from router.contract.errors import BadRequest, TooDeep
from router.contract.request import Continued, Json, JsonObject, RequestView, Transcript
from router.contract.target import Target
from router.contract.transcript import StoredResponse
from router.contract.words import Dialect, Operation
from router.dialects.fields import as_list, as_object, as_text
from router.dialects.requests import read_anew
from router.dialects.sse import Frame

PREVIOUS = "previous_response_id"
_TERMINAL = ("response.completed", "response.incomplete")
_OPAQUE = frozenset({"reasoning", "compaction", "context_compaction"})
"""Items that only their maker can read: to any other target they are noise at best, a 400 at worst."""
_CALLS = frozenset({"function_call", "custom_tool_call"})
_PREFIXES = {"function_call": "fc", "custom_tool_call": "ctc", "reasoning": "rs", "message": "msg"}


def read_previous_id(body: JsonObject) -> str | None:
    """The response that a request goes on from, if any."""
    value = body.get(PREVIOUS)
    if value is not None and not isinstance(value, str):
        raise BadRequest(f"{PREVIOUS}: must be a string such as resp_…", param=PREVIOUS)
    return value or None


def is_kept(view: RequestView) -> bool:
    """Whether the answer is to be kept: a Responses create that nobody said not to store, and whose history is known here."""
    if view.dialect is not Dialect.RESPONSES or view.body.get("store") is False:
        return False
    return view.operation is Operation.CREATE and not view.body.get(PREVIOUS) and not view.body.get("conversation")


def input_items(body: JsonObject) -> list[Json]:
    """The input as a list of items, whichever way it came."""
    given = body.get("input")
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": given}]}]
    return as_list(given)


def record_response(view: RequestView, target: str, at: float, response: JsonObject) -> StoredResponse:
    """The transcript of a response: all that the model was given, and what it answered.

    A target that was told the whole conversation does not know that the request went on from a response; we do.
    """
    continued = view.continued
    if continued is None:
        history = Transcript([], []).then(input_items(view.body), "")
    else:
        history = continued.history.then(input_items(continued.body), "")
        response = {**response, PREVIOUS: continued.body[PREVIOUS]}
    return StoredResponse.write(view.caller, target, at, history, response)


def resume(view: RequestView, transcript: StoredResponse) -> RequestView:
    """The request with its whole conversation, so that everyone who reads it sees all of it."""
    earlier, response = transcript.read()
    history = earlier.then(as_list(response.get("output")), transcript.target)
    # Only a target that says so keeps what it answered; one that ignores the id would lose the conversation without a word.
    stored_by = transcript.target if response.get("store") is True else ""
    continued = Continued(view.raw, view.body, stored_by, history)
    body = _whole_body(continued, reader="")
    return read_anew(view, body, _written(body))._replace(continued=continued)


def view_for(view: RequestView, target: Target) -> RequestView:
    """The request as this target is to see it: by reference where it holds the history, else with its own items unchanged."""
    continued = view.continued
    if continued is None:
        return view
    if target.name == continued.stored_by and Dialect.RESPONSES in target.speaks:
        return view._replace(raw=continued.raw, body=continued.body)
    if target.name not in continued.history.origins:
        return view
    body = _whole_body(continued, target.name)
    return view._replace(raw=_written(body), body=body)


def without_stored(view: RequestView) -> RequestView:
    """The same request, when the target that was to hold its history turned out to have lost it."""
    return view if view.continued is None else view._replace(continued=view.continued._replace(stored_by=""))


def _whole_body(continued: Continued, reader: str) -> JsonObject:
    items = [*_portable(continued.history, reader), *input_items(continued.body)]
    return {**{name: value for name, value in continued.body.items() if name != PREVIOUS}, "input": items}


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
        elif kind in _CALLS:
            items.append({name: field for name, field in item.items() if name != "id"})
        elif kind == "message":
            items.append({**item, "id": _derive_id("msg", as_text(item.get("id")), len(items))})
        elif kind not in _OPAQUE:
            items.append(value)
    return items


def _derive_id(prefix: str, seed: str, index: int) -> str:
    """An id that is the same each time, so that a target's prompt cache still fits."""
    digest = hashlib.blake2b(f"{seed}\0{index}".encode("utf-8", "replace"), digest_size=12)
    return f"{prefix}_{digest.hexdigest()}"


def _written(body: JsonObject) -> bytes:
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError as error:
        raise TooDeep("the conversation is nested too deeply to be written anew: over 250 levels") from error


def read_response(frames: Sequence[Frame]) -> JsonObject | None:
    """The response at the end of a stream, with its output; None when the output cannot be had whole.

    Some servers leave `output` empty there. The finished items stand in their own events, of which the last are at hand;
    they count only when none before them is missing.
    """
    last = next((frame for frame in reversed(frames) if frame.kind in _TERMINAL), None)
    response = as_object(last.json().get("response")) if last is not None else {}
    if not as_text(response.get("id")):
        return None
    if response.get("output"):
        return response
    streamed = {
        index: body.get("item")
        for frame in frames
        if frame.kind == "response.output_item.done" and isinstance(index := (body := frame.json()).get("output_index"), int)
    }
    if not streamed or sorted(streamed) != list(range(len(streamed))):
        return None
    return {**response, "output": [streamed[index] for index in sorted(streamed)]}


def read_whole_response(raw: bytes) -> JsonObject | None:
    """The response in an answer that came in one piece."""
    try:
        response = as_object(orjson.loads(raw))
    except orjson.JSONDecodeError:
        return None
    return response if as_text(response.get("id")) and isinstance(response.get("output"), list) else None


def list_items(transcript: StoredResponse, after: str | None, limit: int, *, newest_first: bool) -> JsonObject:
    """A page of what a response was given, in the shape of OpenAI's lists. Items without an id get one."""
    history, _ = transcript.read()
    items: list[JsonObject] = []
    for index, value in enumerate(history.items):
        item = as_object(value)
        kind = as_text(item.get("type")) or "message"
        given = as_text(item.get("id")) or _derive_id(_PREFIXES.get(kind, "item"), transcript.id, index)
        items.append({**item, "type": kind, "id": given})
    if newest_first:
        items.reverse()
    if after is not None:
        place = next((index for index, item in enumerate(items) if item["id"] == after), None)
        if place is None:
            raise BadRequest("after: no input item of this response has that id", param="after")
        items = items[place + 1 :]
    page = items[:limit]
    return {
        "object": "list",
        "data": list(page),
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": len(items) > len(page),
    }
