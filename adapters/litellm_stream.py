"""A stream of litellm's, made cheaper to read: what of the wire says nothing is not made into objects."""

from collections.abc import AsyncIterator
from typing import Any

_SAYS_NOTHING = ("event:", ":", "id:", "retry:")


def skip_idle_lines(stream: Any) -> None:
    """Keep the blank lines and the names of events from litellm.

    It makes a chunk of each such line, with all of its objects, to find that it is empty: two of three in an event stream. A
    provider whose stream is read in another way stays as it is.
    """
    reader = getattr(stream, "completion_stream", None)
    lines = getattr(reader, "streaming_response", None)
    if hasattr(lines, "__aiter__") and hasattr(lines, "aclose"):
        reader.streaming_response = _Telling(lines)  # type: ignore[union-attr]  # it has lines


class _Telling:
    """The lines of a stream that hold data. Closing it closes the stream, as litellm does."""

    def __init__(self, lines: Any) -> None:
        self._lines = lines

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        while True:
            line = await self._lines.__anext__()
            if not isinstance(line, str) or (line and not line.startswith(_SAYS_NOTHING)):
                return line

    async def aclose(self) -> None:
        await self._lines.aclose()
