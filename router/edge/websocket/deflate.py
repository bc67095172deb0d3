"""Compressed messages that come in: the library leaves them packed, and they are unpacked here, bounded and one at a time.

A message of 20 KB may unpack to 20 MB. The library would unpack whatever was read at once, on the loop. Loaded with the first
socket, as the library is.
"""

import zlib
from collections import deque
from collections.abc import Sequence

from websockets.extensions import Extension
from websockets.extensions.permessage_deflate import PerMessageDeflate, ServerPerMessageDeflateFactory
from websockets.frames import CTRL_OPCODES, Frame, Opcode
from websockets.typing import ExtensionParameter

LIGHT_BYTES = 1 << 16
"""Larger messages are unpacked in a thread, not on the loop."""
_CHUNK_BYTES = 1 << 20
_END = b"\x00\x00\xff\xff"
_WINDOW_BITS = 12
"""Small windows: each socket keeps two of them as long as it is open."""


class TooLarge(Exception):
    """A message unpacks to more than it may."""


class Unpacker:
    """Unpacks the messages of one socket, in their order: each may refer to what the one before it had."""

    def __init__(self, window_bits: int, *, starts_over: bool) -> None:
        self._window_bits, self._starts_over = window_bits, starts_over
        self._decoder = zlib.decompressobj(-window_bits)
        self._rest = b""

    def begin(self, packed: bytes) -> tuple[bytes, bool]:
        """The beginning of a message, and whether that is all of it. Raises `zlib.error`."""
        if self._starts_over or self._decoder.eof:
            self._decoder = zlib.decompressobj(-self._window_bits)
        text = self._decoder.decompress(packed + _END, LIGHT_BYTES)
        self._rest = self._decoder.unconsumed_tail
        return text, not self._rest and len(text) < LIGHT_BYTES

    def finish(self, begun: bytes, max_bytes: int) -> bytes:
        """The whole message. Raises `TooLarge`, or `zlib.error`."""
        pieces, size = [begun], len(begun)
        while size <= max_bytes:
            piece = self._decoder.decompress(self._rest, _CHUNK_BYTES)
            pieces.append(piece)
            size += len(piece)
            self._rest = self._decoder.unconsumed_tail
            if not self._rest and len(piece) < _CHUNK_BYTES:
                break
        if size > max_bytes:
            raise TooLarge
        return b"".join(pieces)


class LateDeflate(PerMessageDeflate):
    """Packs what goes out, and leaves what comes in as it is."""

    def __init__(self, ready: PerMessageDeflate) -> None:
        super().__init__(
            ready.remote_no_context_takeover,
            ready.local_no_context_takeover,
            ready.remote_max_window_bits,
            ready.local_max_window_bits,
            ready.compress_settings,
        )
        self.unpacker = Unpacker(ready.remote_max_window_bits, starts_over=ready.remote_no_context_takeover)
        self.are_packed: deque[bool] = deque()
        """Whether each message that has begun is packed, those that nobody has asked about yet."""

    def decode(self, frame: Frame, *, max_size: int | None = None) -> Frame:
        """Take the mark off a message that is packed. A mark anywhere else is refused by the library."""
        if frame.opcode in CTRL_OPCODES or frame.opcode is Opcode.CONT:
            return frame
        self.are_packed.append(frame.rsv1)
        return Frame(frame.opcode, frame.data, frame.fin, False, frame.rsv2, frame.rsv3) if frame.rsv1 else frame


class LateDeflateFactory(ServerPerMessageDeflateFactory):
    """Agrees on compression with a client."""

    def __init__(self) -> None:
        super().__init__(
            server_max_window_bits=_WINDOW_BITS, client_max_window_bits=_WINDOW_BITS, compress_settings={"memLevel": 5}
        )

    def process_request_params(
        self, params: Sequence[ExtensionParameter], accepted_extensions: Sequence[Extension]
    ) -> tuple[list[ExtensionParameter], PerMessageDeflate]:
        """What both sides keep to, and the extension."""
        agreed, ready = super().process_request_params(params, accepted_extensions)
        return agreed, LateDeflate(ready)
