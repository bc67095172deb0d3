"""Keeping what was answered, for an operator who asked for texts in the ledger."""

from router.contract.errors import TandemError
from router.contract.relay import Flow, Headers, Sink


class RecordingSink:
    """Passes an answer on unchanged, and keeps its pieces."""

    def __init__(self, caller: Sink) -> None:
        self._caller = caller
        self._pieces: list[bytes] = []

    def feed_from(self, flow: Flow) -> None:
        self._caller.feed_from(flow)

    def start(self, status: int, headers: Headers) -> None:
        self._caller.start(status, headers)

    def write(self, data: bytes) -> None:
        self._pieces.append(data)
        self._caller.write(data)

    def end(self) -> None:
        self._caller.end()

    def fail(self, error: TandemError) -> None:
        self._caller.fail(error)

    @property
    def body(self) -> bytes:
        """What was answered so far."""
        return b"".join(self._pieces)
