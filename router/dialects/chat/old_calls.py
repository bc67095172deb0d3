"""Legacy `functions`: a message holds one call, without an id, in `function_call`."""

from collections.abc import Mapping
from typing import ClassVar

from router.contract.request import JsonObject
from router.dialects.chat.compose import ChatComposer
from router.dialects.composer import Answer, Finish
from router.dialects.fields import as_list, as_object


def asks_for_old_calls(body: JsonObject) -> bool:
    return bool(body.get("functions")) and not body.get("tools")


def compose_chat(answer: Answer) -> ChatComposer:
    return OldCallsComposer(answer) if asks_for_old_calls(answer.asked) else ChatComposer(answer)


class OldCallsComposer(ChatComposer):
    """Writes only the first call. Targets are asked for one at most."""

    finishes: ClassVar[Mapping[Finish, str]] = {**ChatComposer.finishes, Finish.TOOLS: "function_call"}

    def call_chunk(self, call: JsonObject) -> bytes:
        return b"" if call["index"] else self._chunk({"function_call": call["function"]})

    def whole(self) -> JsonObject:
        body = super().whole()
        message = as_object(as_object(as_list(body["choices"])[0])["message"])
        if calls := as_list(message.pop("tool_calls", None)):
            message["function_call"] = as_object(calls[0])["function"]
        return body
