"""Server-sent events from bytes that may be split anywhere."""

from collections.abc import Iterator

MAX_FRAME_BYTES = 16 << 20
"""Larger frames are taken as endless."""


class FrameSplitter:
    """Scans each byte once, however small the pieces."""

    __slots__ = ("_has_return", "_rest")

    def __init__(self) -> None:
        self._rest = bytearray()
        self._has_return = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The data of completed frames. Raises ValueError if one does not end."""
        data = self._with_plain_line_ends(data)
        rest = self._rest
        if rest:
            seen = len(rest) - 1  # a frame's end may be cut in two
            rest += data
            if rest.find(b"\n\n", seen) >= 0:
                data, self._rest = bytes(rest), bytearray()
                rest = self._rest
            else:
                data = b""
        *frames, last = data.split(b"\n\n")
        for frame in frames:
            found = _data_of(frame)
            if found:
                yield found
        rest += last
        if len(rest) > MAX_FRAME_BYTES:
            raise ValueError("an unfinished frame")

    def flush(self) -> Iterator[bytes]:
        """The last frame: some hosts omit its empty line."""
        rest, self._rest = bytes(self._rest).strip(b"\n"), bytearray()
        found = _data_of(rest)
        if found:
            yield found

    def _with_plain_line_ends(self, data: bytes) -> bytes:
        if self._has_return:
            data, self._has_return = b"\r" + data, False
        if b"\r" not in data:
            return data
        if data.endswith(b"\r"):  # perhaps half of a line end
            data, self._has_return = data[:-1], True
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _data_of(frame: bytes) -> bytes:
    if frame.startswith(b"data: ") and b"\n" not in frame:
        return frame[6:].strip()
    lines = [line[5:].removeprefix(b" ") for line in frame.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines).strip()
