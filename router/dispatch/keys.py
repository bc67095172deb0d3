"""Keys that a target echoes: taken out of whatever of its answer goes to a caller."""

import re
from collections.abc import Iterable

from router.contract.relay import Headers
from router.contract.secret import Secret

_LEAST_IN_ANSWERS, _LEAST_IN_REFUSALS = 12, 6
"""Shorter keys are words such as `ollama` or `EMPTY`, which a model may well write. A refusal is no model's work."""
_NEVER = b"\xff\xfe\xff"
"""In no text: these bytes are not UTF-8."""
_HIDDEN = b"***"
_UNCHANGED = re.compile(r"[A-Za-z0-9_.~-]+")


class KeyGuard:
    """Knows one target's key, and what else must not come back from it. Prints without them.

    Streams are searched for the key alone, since it costs something for every piece. `others` are taken out of refusals.
    """

    __slots__ = ("_in_refusals", "_key", "mark", "mark_text")

    def __init__(self, key: str, others: Iterable[str] = ()) -> None:
        self._key = key.strip().encode("latin-1", "replace")
        hidden = [text.strip().encode("latin-1", "replace") for text in (key, *others)]
        spelled = [b"".join(map(_spellings, text)) for text in hidden if len(text) >= _LEAST_IN_REFUSALS]
        self._in_refusals = re.compile(b"|".join(spelled), re.IGNORECASE) if spelled else None
        self.mark = (
            max(_UNCHANGED.findall(key), key=len, default="").encode() if len(self._key) >= _LEAST_IN_ANSWERS else _NEVER
        )
        """The longest part of the key that is the same in every spelling: what does not hold it holds no key either."""
        if len(self.mark) < 3:
            self.mark = self._key
        self.mark_text = self.mark.decode("latin-1")

    def clean(self, body: bytes) -> bytes:
        """A refusal, or whatever has the mark in it, without the key."""
        return self._in_refusals.sub(_HIDDEN, body) if self._in_refusals is not None else body

    def clean_headers(self, headers: Headers) -> Headers:
        return tuple((name, self.clean(value.encode("latin-1", "replace")).decode("latin-1")) for name, value in headers)

    def split_end(self, data: bytes) -> int:
        """Where the key may begin that the next bytes would end; the length of these bytes if it does not."""
        if self.mark is _NEVER:
            return len(data)
        key = self._key
        for size in range(min(len(key) - 1, len(data)), 0, -1):
            if data.endswith(key[:size]):
                return len(data) - size
        return len(data)


def _spellings(byte: int) -> bytes:
    r"""One letter of a key as hosts write it: itself, escaped in JSON (`\/`, `\u002f`), or in a URL (`%2F`)."""
    return rb"(?:\\?%b|%%%02x|\\u00%02x)" % (re.escape(bytes((byte,))), byte, byte)


NO_KEY = KeyGuard("")


def guard_for(secret: Secret | None, others: Iterable[Secret] = ()) -> KeyGuard:
    """The guard for a target's key and its other secrets. Where it has no key, one of the others is watched for like a key."""
    known = (secret, *others) if secret is not None else others
    texts = list(dict.fromkeys(text for one in known if (text := one.reveal())))
    return KeyGuard(texts[0], texts[1:]) if texts else NO_KEY
