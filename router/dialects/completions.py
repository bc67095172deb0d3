"""The old text endpoint, for fill-in-the-middle. Its streams end, and its usage reads, as in chat."""

from router.contract.errors import BadRequest
from router.contract.request import Conversation, Json, JsonObject, Message, Peek
from router.contract.words import Feature
from router.dialects.fields import Reading, as_text


def read(body: JsonObject) -> Reading:
    """Read a completion request. Its prompt is code before a cursor, not words of a person."""
    prompt = body.get("prompt")
    if not isinstance(prompt, (str, list)) or not prompt:
        raise BadRequest("prompt: missing. Send the text before the cursor", param="prompt")
    items: list[Json] = [prompt] if isinstance(prompt, str) else list(prompt)
    reading = Reading(Conversation(items, lambda item: Message("code", (as_text(item),)), lambda item: Peek("code")))
    reading.needs.add(Feature.COMPLETIONS)
    return reading
