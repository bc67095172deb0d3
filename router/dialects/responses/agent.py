"""The stream of a job that a coding agent does: what the agent prints is its reasoning, and its change is the message."""

from router.contract.job import LOG_ID
from router.contract.request import Json, JsonObject
from router.dialects.composer import Answer
from router.dialects.fields import as_text
from router.dialects.responses.compose import ResponsesComposer
from router.dialects.sse import split_frames

_MODEL = "auto"
_LOGGED = "response.reasoning_summary_text.delta"


class AgentComposer(ResponsesComposer):
    """Writes a part of the stream. Each part may be written by another process, so it is told what came before."""

    def __init__(self, job_id: str, created: int) -> None:
        super().__init__(Answer(job_id.removeprefix("resp_"), _MODEL, created))

    def begin(self) -> bytes:
        """The frames before the first line of the log."""
        return self.open() + self.reasoning("")

    def resume(self, log: str, number: int) -> None:
        """Go on with this number, after a log that was written before."""
        self.begin()
        self._pieces.append(log)
        self._sequence = number

    def end_items(self, change: str) -> bytes:
        """Close the log, and write the change, if there is one."""
        frames = self._end()
        if change:
            frames += self.text(change) + self._end()
        return frames

    def _reasoning(self, summary: list[Json]) -> JsonObject:
        return {**super()._reasoning(summary), "id": f"{LOG_ID}_{self._answer.id}"}

    def describe(self, status: str) -> JsonObject:
        """The response as it is now."""
        return {**self._response(status), "background": True}


def read_log_text(frames: bytes, before: int) -> str:
    """What the agent has printed, as far as frames with a lower number say."""
    bodies = (frame.json() for frame in split_frames(frames) if frame.kind == _LOGGED)
    return "".join(as_text(body.get("delta")) for body in bodies if _number(body) < before)


def _number(body: JsonObject) -> int:
    number = body.get("sequence_number")
    return number if isinstance(number, int) else -1
