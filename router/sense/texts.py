"""Every text of a request that a model would read, without the bytes of images and files."""

from collections.abc import Iterator

from router.contract.request import Json, RequestView

_READ_FIELDS = ("messages", "input", "prompt", "system", "instructions", "tools")
_MEDIA_FIELDS = frozenset({"data", "file_data", "image_url", "url"})
_LONGEST_URL = 4_096
_BARE_FIELDS = frozenset({"role", "type", "id", "call_id", "tool_call_id", "tool_use_id", "status", "cache_control"})
"""Fields that frame a message and are not read as text; a model counts about four tokens for the frame."""


def texts_of(view: RequestView) -> Iterator[str]:
    """Messages, calls with their arguments, results, the system prompt and the tools, in no particular order."""
    waiting: list[Json] = [view.body[name] for name in _READ_FIELDS if name in view.body]
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
