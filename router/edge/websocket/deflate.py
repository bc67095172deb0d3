"""Unpacks incoming compressed messages, bounded and one at a time.

A message of 20 KB may unpack to 20 MB. The library would unpack a whole read at once on the loop. Loaded with the first socket.
"""

import zlib
from collections import deque
from collections.abc import Sequence

from websockets.extensions import Extension
from websockets.extensions.permessage_deflate import PerMessageDeflate, ServerPerMessageDeflateFactory
from websockets.frames import CTRL_OPCODES, Frame, Opcode
from websockets.typing import ExtensionParameter

LIGHT_BYTES = 1 << 16
"""Larger messages are unpacked in a thread."""
_CHUNK_BYTES = 1 << 20
_END = b"\x00\x00\xff\xff"
_WINDOW_BITS = 12
"""Small, since each socket holds two windows while open."""


class TooLarge(Exception):
    """A message unpacks to more than the limit."""


class Unpacker:
    """Unpacks one socket's messages in order: each may refer to the one before."""

    def __init__(self, window_bits: int, *, starts_over: bool) -> None:
        self._window_bits, self._starts_over = window_bits, starts_over
        self._decoder = zlib.decompressobj(-window_bits)
        self._rest = b""

    def begin(self, packed: bytes) -> tuple[bytes, bool]:
        """The beginning of a message, and whether it is complete. Raises `zlib.error`."""
        if self._starts_over or self._decoder.eof:
            self._decoder = zlib.decompressobj(-self._window_bits)
        text = self._decoder.decompress(packed + _END, LIGHT_BYTES)
        self._rest = self._decoder.unconsumed_tail
        return text, not self._rest and len(text) < LIGHT_BYTES

    def finish(self, begun: bytes, max_bytes: int) -> bytes:
        """The whole message. Raises `TooLarge` or `zlib.error`."""
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
    """Packs outgoing messages, and leaves incoming ones packed."""

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
        """For each message begun and not yet processed."""

    def decode(self, frame: Frame, *, max_size: int | None = None) -> Frame:
        """Note and clear the mark of a packed message. The library refuses other marks."""
        if frame.opcode in CTRL_OPCODES or frame.opcode is Opcode.CONT:
            return frame
        self.are_packed.append(frame.rsv1)
        return Frame(frame.opcode, frame.data, frame.fin, False, frame.rsv2, frame.rsv3) if frame.rsv1 else frame


class LateDeflateFactory(ServerPerMessageDeflateFactory):
    def __init__(self) -> None:
        super().__init__(
            server_max_window_bits=_WINDOW_BITS, client_max_window_bits=_WINDOW_BITS, compress_settings={"memLevel": 5}
        )

    def process_request_params(
        self, params: Sequence[ExtensionParameter], accepted_extensions: Sequence[Extension]
    ) -> tuple[list[ExtensionParameter], PerMessageDeflate]:
        agreed, ready = super().process_request_params(params, accepted_extensions)
        return agreed, LateDeflate(ready)
