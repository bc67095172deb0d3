r"""How many tokens a prompt has: an estimate in microseconds, whatever its size.

The estimate reads sixteen windows of the raw body, counts letters, digits, signs and bytes of other scripts in them, and
weighs each count. The weights were fitted to `o200k_base` on Python, C, JavaScript, TypeScript, prose, JSON, logs, real
prompts, German, French, Portuguese, Russian, Japanese, Chinese, base64 and hex, in JSON with and without `\u` escapes.
"""

import re

from router.contract.request import RequestView
from router.contract.signals import TokenCount
from router.sense.texts import texts_of

_WINDOWS = 16
_WINDOW_BYTES = 128
_LOWER = b"abcdefghijklmnopqrstuvwxyz"
_UPPER = _LOWER.upper()
_DIGITS = b"0123456789"
_SIGNS = bytes(code for code in range(33, 127) if not chr(code).isalnum() and chr(code) != "\\")
_TWO_BYTE_LEADS = bytes(range(0xC0, 0xE0))
_LONG_LEADS = bytes(range(0xE0, 0x100))
_ESCAPE = re.compile(rb"\\u([0-9a-fA-F]{4})")
_DENSE_TOKENS_PER_BYTE = 0.63
"""Base64, hex and their like: no words, so nothing merges."""

LOW, HIGH = 0.80, 1.35
"""The band. On 437 samples of those kinds the true count was 0.79 to 1.37 of the estimate; 98 % lay inside 0.87 to 1.29."""

TOKENS_PER_IMAGE = 1_000
"""Hosts count an image by its size, between 100 and 3,000; without decoding it this is the middle."""


def estimate_tokens(raw: bytes) -> int:
    """Tokens in a JSON body, as a language model would count its text."""
    size = len(raw)
    if size <= _WINDOW_BYTES * 8:
        return round(_weigh(raw))
    if size <= _WINDOWS * _WINDOW_BYTES:
        windows = [raw[start : start + _WINDOW_BYTES] for start in range(0, size, _WINDOW_BYTES)]
    else:
        step = size / _WINDOWS
        windows = [raw[(start := int(index * step)) : start + _WINDOW_BYTES] for index in range(_WINDOWS)]
    seen = dense = 0
    plain: list[bytes] = []
    for window in windows:
        seen += len(window)
        if window.translate(None, b"+/=-_").isalnum():
            dense += len(window)
        else:
            plain.append(window)
    if not seen:
        return 0
    return round((_weigh(b"".join(plain)) + dense * _DENSE_TOKENS_PER_BYTE) * size / seen)


def _weigh(text: bytes) -> float:
    if b"\\u" in text:
        text = _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)).encode("utf-8", "replace"), text)
    size, without = len(text), text.translate
    tokens = (
        0.186 * (size - len(without(None, _LOWER)))
        + 0.264 * (size - len(without(None, _UPPER)))
        + 0.681 * (size - len(without(None, _DIGITS)))
        + 0.427 * (size - len(without(None, _SIGNS)))
        + 0.299 * text.count(b" ")
        - 0.455 * text.count(b"  ")
        + 0.926 * text.count(b"\\n")
    )
    if not text.isascii():
        tokens += 0.244 * (size - len(without(None, _TWO_BYTE_LEADS))) + 0.773 * (size - len(without(None, _LONG_LEADS)))
    return max(tokens, 0.0)


def estimate_prompt(view: RequestView) -> TokenCount:
    """The prompt's tokens with their band. Images and files are counted apart: their bytes are not text."""
    if view.media_bytes:
        tokens = estimate_tokens("\n".join(texts_of(view)).encode("utf-8", "replace"))
    else:
        tokens = estimate_tokens(view.raw)
    tokens += view.image_count * TOKENS_PER_IMAGE
    return TokenCount(tokens, low=int(tokens * LOW), high=int(tokens * HIGH) + 1)
