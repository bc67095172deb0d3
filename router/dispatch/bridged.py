"""An attempt at a target of another dialect: its answer is translated before the relay sees it."""

from router.contract.errors import TandemError
from router.contract.relay import Flow, Headers, Sink
from router.dialects.bridge.answer import BridgedAnswer

_STREAM: Headers = (("content-type", "text/event-stream"),)
_JSON: Headers = (("content-type", "application/json"),)


class Bridged:
    """A sink in the target's dialect before one in the caller's. Streams pass piece by piece, all else is held until whole."""

    def __init__(self, answer: BridgedAnswer, relay: Sink, *, most_bytes: int) -> None:
        self._answer, self._relay, self._most_bytes = answer, relay, most_bytes
        self._status = 0
        self._headers: Headers = ()
        self._is_stream = False
        self._held: list[bytes] = []
        self._held_bytes = 0

    def feed_from(self, flow: Flow) -> None:
        self._relay.feed_from(flow)

    def start(self, status: int, headers: Headers) -> None:
        self._status = status
        self._is_stream = 200 <= status < 300 and any(
            name == "content-type" and value.lower().startswith("text/event-stream") for name, value in headers
        )
        self._headers = tuple(header for header in headers if header[0] not in ("content-type", "content-length"))
        if self._is_stream:
            self._relay.start(status, _STREAM + self._headers)

    def write(self, data: bytes) -> None:
        if self._is_stream:
            frames = self._answer.feed(data)
            if frames:
                self._relay.write(frames)
        elif self._held_bytes <= self._most_bytes:  # one piece more than is allowed, so that the relay refuses it
            self._held.append(data)
            self._held_bytes += len(data)

    def end(self) -> None:
        if self._is_stream:
            frames = self._answer.finish()
            if frames:
                self._relay.write(frames)
        else:
            self._relay.start(self._status, _JSON + self._headers)
            self._relay.write(self._translate(b"".join(self._held)))
        self._relay.end()

    def _translate(self, body: bytes) -> bytes:
        if not 200 <= self._status < 300:
            return self._answer.refusal(self._status, body)
        try:
            return self._answer.whole(body)
        except ValueError:
            return body  # the relay says that this is no answer

    def fail(self, error: TandemError) -> None:
        self._relay.fail(error)
