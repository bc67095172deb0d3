"""Removes keys that a target echoes from what its callers get."""

import re
from collections.abc import Iterable

from router.contract.relay import Headers
from router.contract.secret import Secret

_LEAST_IN_ANSWERS, _LEAST_IN_REFUSALS = 12, 6
"""Shorter keys are words such as `ollama` or `EMPTY`, which a model may write. No model writes refusals."""
_NEVER = b"\xff\xfe\xff"
"""Not UTF-8, so in no text."""
_HIDDEN = b"***"
_UNCHANGED = re.compile(r"[A-Za-z0-9_.~-]+")


class KeyGuard:
    """Hides a target's key and, in refusals, other secrets. Streams are searched for the key only: each piece costs time."""

    __slots__ = ("_in_refusals", "_key", "mark", "mark_text")

    def __init__(self, key: str, others: Iterable[str] = ()) -> None:
        self._key = key.strip().encode("latin-1", "replace")
        hidden = [text.strip().encode("latin-1", "replace") for text in (key, *others)]
        spelled = [b"".join(map(_spellings, text)) for text in hidden if len(text) >= _LEAST_IN_REFUSALS]
        self._in_refusals = re.compile(b"|".join(spelled), re.IGNORECASE) if spelled else None
        self.mark = (
            max(_UNCHANGED.findall(key), key=len, default="").encode() if len(self._key) >= _LEAST_IN_ANSWERS else _NEVER
        )
        """The longest part of the key with one spelling: a text without it holds no key."""
        if len(self.mark) < 3:
            self.mark = self._key
        self.mark_text = self.mark.decode("latin-1")

    def clean(self, body: bytes) -> bytes:
        return self._in_refusals.sub(_HIDDEN, body) if self._in_refusals is not None else body

    def clean_headers(self, headers: Headers) -> Headers:
        return tuple((name, self.clean(value.encode("latin-1", "replace")).decode("latin-1")) for name, value in headers)

    def split_end(self, data: bytes) -> int:
        """Where a key that the next bytes complete may begin; else the length."""
        if self.mark is _NEVER:
            return len(data)
        key = self._key
        for size in range(min(len(key) - 1, len(data)), 0, -1):
            if data.endswith(key[:size]):
                return len(data) - size
        return len(data)


def _spellings(byte: int) -> bytes:
    r"""A key's letter as hosts write it: plain, escaped in JSON (`\/`, `\u002f`), or in a URL (`%2F`)."""
    return rb"(?:\\?%b|%%%02x|\\u00%02x)" % (re.escape(bytes((byte,))), byte, byte)


NO_KEY = KeyGuard("")


def guard_for(secret: Secret | None, others: Iterable[Secret] = ()) -> KeyGuard:
    """Without a key, another secret is watched for like one."""
    known = (secret, *others) if secret is not None else others
    texts = list(dict.fromkeys(text for one in known if (text := one.reveal())))
    return KeyGuard(texts[0], texts[1:]) if texts else NO_KEY
