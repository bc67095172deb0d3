"""What is kept of a response, so that a later request may go on from it; and who keeps it."""

from typing import NamedTuple, Protocol

import orjson

from router.contract.request import JsonObject, Transcript


class StoredResponse(NamedTuple):
    """One response with all that led to it. `content` is written once, as JSON: its size is known, and nobody can change it."""

    id: str
    caller: str
    target: str
    at: float
    content: bytes

    @classmethod
    def write(cls, caller: str, target: str, at: float, history: Transcript, response: JsonObject) -> "StoredResponse":
        """Take down a response. Raises `orjson.JSONEncodeError` when it is nested too deeply to be written."""
        content = orjson.dumps({"items": history.items, "makers": history.origins, "response": response})
        return cls(str(response["id"]), caller, target, at, content)

    def read(self) -> tuple[Transcript, JsonObject]:
        """What the response was given, and the response itself."""
        content = orjson.loads(self.content)
        return Transcript(content["items"], content["makers"]), content["response"]


class ResponseStore(Protocol):
    """Keeps transcripts, each for its own caller. Keeping never blocks and never fails the request."""

    def keep(self, transcript: StoredResponse, *, for_long: bool) -> None:
        """Take a transcript. `for_long` is the caller's explicit wish that it outlive the process."""
        ...

    async def find(self, response_id: str, caller: str) -> StoredResponse | None:
        """The transcript of a response that this caller made."""
        ...

    async def forget(self, response_id: str, caller: str) -> bool:
        """Delete it everywhere. False when this caller had none of that id."""
        ...

    async def is_denied(self, response_id: str, caller: str) -> bool:
        """Whether the id is known and not this caller's to use: deleted, or somebody else's."""
        ...

    def close(self) -> None:
        """Write what is left."""
        ...
