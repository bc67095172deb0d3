r"""Token counts of prompts: an estimate in microseconds for any size, and what exact counts taught.

The estimate reads sixteen windows of the raw body, counts letters, digits, signs and bytes of other scripts, and weighs each
count. Weights were fitted to `o200k_base` on Python, C, JavaScript, TypeScript, prose, JSON, logs, real prompts, German,
French, Portuguese, Russian, Japanese, Chinese, base64 and hex, in JSON with and without `\u` escapes.
"""

import re
from collections import OrderedDict
from collections.abc import Iterator
from itertools import compress, repeat
from operator import floordiv, mul

from router.contract.caller import SessionKey
from router.contract.request import Json, RequestView
from router.contract.signals import TokenCount

_READ_FIELDS = ("messages", "input", "prompt", "system", "instructions", "tools")
_MEDIA_FIELDS = frozenset({"data", "file_data", "image_url", "url"})
_LONGEST_URL = 4_096
_BARE_FIELDS = frozenset({"role", "type", "id", "call_id", "tool_call_id", "tool_use_id", "status", "cache_control"})
"""Frame a message, and are not read as text: a model counts about four tokens for them."""
_MAX_SESSIONS = 2_048
_SLACK = 0.005
"""Framing and sampling: two estimates of one prompt differ this much."""
_WINDOWS = 16
_WINDOW_BYTES = 128
_LOWER = b"abcdefghijklmnopqrstuvwxyz"
_BY_KIND = {
    "a": _LOWER,
    "A": _LOWER.upper(),
    "0": b"0123456789",
    "!": bytes(code for code in range(33, 127) if not chr(code).isalnum() and chr(code) != "\\"),
    " ": b" ",
    "2": bytes(range(0xC0, 0xE0)),
    "3": bytes(range(0xE0, 0x100)),
}
"""Letters, digits, signs, spaces, and first bytes of two or of more."""
_KINDS = "".join(next((kind for kind, codes in _BY_KIND.items() if code in codes), ".") for code in range(256)).encode()
_COUNTED_KINDS = (b"A", b"0", b"!", b" ")
_COUNTED_SIGNS = (b"  ", b"\\n")
_WEIGHTS = (0.186, 0.264, 0.681, 0.427, 0.299, -0.455, 0.926)
"""In tokens: small letters, then these kinds, then these signs."""
_DENSE_SIGNS = b"+/=-_"
_ESCAPE = re.compile(rb"\\u([0-9a-fA-F]{4})")
_DENSE_TOKENS_PER_BYTE = 0.63
"""Base64, hex and the like: nothing merges without words."""

LOW, HIGH = 0.80, 1.35
"""The band. On 437 samples the true count was 0.79 to 1.37 of the estimate; 98 % were within 0.87 to 1.29."""

TOKENS_PER_IMAGE = 1_000
"""Hosts count 100 to 3,000 by size; the middle, without decoding it."""


def estimate_tokens(raw: bytes) -> int:
    size = len(raw)
    if size <= _WINDOW_BYTES * 8:
        return round(_weigh(raw))
    windows = _take_windows(raw, size)
    # Maps of methods, here and below: sixteen windows at the cost of one.
    is_dense = list(map(bytes.isalnum, map(bytes.translate, windows, repeat(None), repeat(_DENSE_SIGNS))))
    if True not in is_dense:
        sample = b"".join(windows)
        return round(_weigh(sample) * size / len(sample))
    plain = [window for window, without_words in zip(windows, is_dense, strict=True) if not without_words]
    dense = sum(map(len, compress(windows, is_dense)))
    return round((_weigh(b"".join(plain)) + dense * _DENSE_TOKENS_PER_BYTE) * size / sum(map(len, windows)))


def _take_windows(raw: bytes, size: int) -> list[bytes]:
    if size <= _WINDOWS * _WINDOW_BYTES:
        starts = list(range(0, size, _WINDOW_BYTES))
    else:
        starts = list(map(floordiv, range(0, size * _WINDOWS, size), repeat(_WINDOWS)))
    return list(map(raw.__getitem__, map(slice, starts, map(_WINDOW_BYTES.__add__, starts))))


def _weigh(text: bytes) -> float:
    if text.find(b"\\") >= 0 and text.rfind(b"\\u") >= 0:
        text = _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)).encode("utf-8", "replace"), text)
    # Most of a text is small letters: the rest is counted in a fraction of the time.
    others = text.translate(_KINDS, _LOWER)
    count, letters = others.count, len(text) - len(others)
    tokens: float = sum(map(mul, _WEIGHTS, (letters, *map(count, _COUNTED_KINDS), *map(text.count, _COUNTED_SIGNS))))
    if not text.isascii():
        tokens += 0.244 * count(b"2") + 0.773 * count(b"3")
    return max(tokens, 0.0)


def estimate_prompt(view: RequestView) -> TokenCount:
    """Prompt tokens with their band. Images and files count apart: their bytes are not text."""
    if view.media_bytes:
        tokens = estimate_tokens("\n".join(texts_of(view)).encode("utf-8", "replace"))
    else:
        tokens = estimate_tokens(view.raw)
    if view.image_count:
        tokens += view.image_count * TOKENS_PER_IMAGE
    return TokenCount(tokens, low=int(tokens * LOW), high=int(tokens * HIGH) + 1)


def texts_of(view: RequestView) -> Iterator[str]:
    return texts_in(read_fields(view))


def read_fields(view: RequestView) -> list[Json]:
    return [view.body[name] for name in _READ_FIELDS if name in view.body]


def texts_in(waiting: list[Json]) -> Iterator[str]:
    """Texts and field names to count, in no particular order. Consumes the list."""
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, dict):
            for name, inner in value.items():
                if name in _BARE_FIELDS:
                    continue
                if name in _MEDIA_FIELDS and isinstance(inner, str) and len(inner) > _LONGEST_URL:
                    continue
                yield name
                waiting.append(inner)


class Calibration:
    """The last exact count of each session, with its estimate."""

    def __init__(self) -> None:
        self._known: OrderedDict[SessionKey, tuple[int, int]] = OrderedDict()

    def note(self, session: SessionKey, estimated: int, exact: int) -> None:
        self._known[session] = (estimated, exact)
        self._known.move_to_end(session)
        if len(self._known) > _MAX_SESSIONS:
            self._known.popitem(last=False)

    def narrow(self, session: SessionKey, count: TokenCount) -> TokenCount:
        """Narrow the band, if the session was counted before and has only grown since."""
        known = self._known.get(session)
        if known is None or count.tokens < known[0] * (1 - _SLACK):
            return count
        estimated, exact = known
        new = max(0, count.tokens - estimated)
        slack = exact * _SLACK
        return TokenCount(
            tokens=round(exact + new),
            low=round(exact + new * LOW - slack),
            high=round(exact + new * HIGH + slack),
        )
