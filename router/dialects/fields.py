"""Reading fields of foreign JSON, with refusals that name the field."""

import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import chain, compress, repeat

from msgspec import Struct
from msgspec.structs import replace

from router.contract.errors import BadRequest
from router.contract.request import Conversation, Json, JsonObject
from router.contract.secret import OWN_PREFIX, mask_keys
from router.contract.words import Feature

_OBJECT = frozenset({dict})

TEXT_ONLY = frozenset({Feature.TEXT})
_NO_TOOLS: frozenset[Feature] = frozenset()
_TOOLS, _CUSTOM_TOOLS = frozenset({Feature.TOOLS}), frozenset({Feature.CUSTOM_TOOLS})

_is_usual_name = re.compile(rf"(?!(?i:.*{OWN_PREFIX}))[!-~]{{1,200}}").fullmatch
"""Ordinary model names; others are checked closely."""

_UNCOUNTABLE = 1_000_000_000_000


class Seen(Struct, frozen=True):
    """What the messages contain besides text."""

    image_count: int = 0
    file_count: int = 0
    media_bytes: int = 0
    bound: str = ""
    """The first thing that only a target of this dialect can read."""
    system_at: int | None = None
    """Index of the first system message with text, where it is among the messages."""

    def with_image(self, source_bytes: int, bound: str = "") -> "Seen":
        media_bytes, bound = self.media_bytes + source_bytes, self.bound or bound
        return replace(self, image_count=self.image_count + 1, media_bytes=media_bytes, bound=bound)

    def with_file(self, source_bytes: int, bound: str = "") -> "Seen":
        media_bytes, bound = self.media_bytes + source_bytes, self.bound or bound
        return replace(self, file_count=self.file_count + 1, media_bytes=media_bytes, bound=bound)

    @property
    def needs(self) -> frozenset[Feature]:
        if not self.image_count and not self.file_count:
            return TEXT_ONLY
        images = {Feature.IMAGES} if self.image_count else set()
        return TEXT_ONLY.union(images, {Feature.FILES} if self.file_count else set())


NOTHING_SEEN = Seen()
AN_IMAGE_BY_ID, A_FILE_BY_ID, AUDIO = "an image by id", "a file by id", "audio"
"""Why a request is bound to its dialect: an id is known to one host alone, and audio has no form in other dialects."""


class Reading(Struct, frozen=True):
    conversation: Conversation
    system: str = ""
    effort: str | None = None
    needs: frozenset[Feature] = TEXT_ONLY
    seen: Seen = NOTHING_SEEN
    previous_response_id: str | None = None
    hosted: str = ""
    """The first tool that the target itself must run."""


def read_model(body: JsonObject) -> str:
    model = body.get("model")
    if isinstance(model, str) and _is_usual_name(model):
        return model
    if not isinstance(model, str) or not model.strip():
        if model is None:
            raise BadRequest('model: missing. Send "auto", "fast" or "deep"', param="model")
        raise BadRequest('model: must be a non-empty string such as "auto"', param="model")
    if len(model) > 200 or not model.isprintable():
        raise BadRequest("model: must have at most 200 characters, and no control characters", param="model")
    if mask_keys(model) != model:  # the ledger keeps the name
        raise BadRequest("model: this is a key of the router, not the name of a model", param="model")
    return model


def read_stream(body: JsonObject) -> bool:
    stream = body.get("stream")
    if stream is True:
        if "stream_options" in body:
            _check_options(body["stream_options"])
        return True
    if stream is not None and stream is not False:
        raise BadRequest(f"stream: must be true or false, not {shown(stream)}", param="stream")
    if body.get("stream_options") is not None:
        raise BadRequest("stream_options: only allowed when stream is true", param="stream_options")
    return False


def check_flags(body: JsonObject, names: Iterable[str]) -> None:
    """Refuse values other than true, false and null: a text such as "false" would count as its opposite."""
    for name in names:
        value = body.get(name)
        if value is not None and not isinstance(value, bool):
            raise BadRequest(f"{name}: must be true or false, not {shown(value)}", param=name)


def _check_options(options: Json) -> None:
    if options is not None and not isinstance(options, dict):
        raise BadRequest(f"stream_options: must be an object, not {shown(options)}", param="stream_options")
    asks = (options or {}).get("include_usage")
    if asks is not None and not isinstance(asks, bool):
        where = "stream_options.include_usage"
        raise BadRequest(f"{where}: must be true or false, not {shown(asks)}", param=where)


def read_list(body: JsonObject, name: str) -> list[Json]:
    value = body.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadRequest(f"{name}: must be a list, not {shown(value)}", param=name)
    return value


def objects(items: list[Json], name: str, first: int = 0) -> list[JsonObject]:
    """Check that all items are objects. `first` is the index of the first in the whole list."""
    if not _OBJECT.issuperset(map(type, items)):
        for index, item in enumerate(items, first):
            if not isinstance(item, dict):
                raise BadRequest(f"{name}[{index}]: must be an object, not {shown(item)}", param=f"{name}[{index}]")
    return items  # type: ignore[return-value]  # each was checked above


def find_hosted(tools: list[Json], callers: tuple[str | None, ...], prefixes: tuple[str, ...] = ()) -> str:
    """The first tool that is neither a function nor run by the caller; empty if none."""
    kinds = list(map(dict.get, objects(tools, "tools"), repeat("type")))
    if all(map(callers.__contains__, kinds)):
        return ""
    others = (kind for kind in kinds if isinstance(kind, str) and kind not in callers)
    return next((kind[:40] for kind in others if not kind.startswith(prefixes)), "")


def read_tools(body: JsonObject) -> frozenset[Feature]:
    types = list(map(dict.get, objects(read_list(body, "tools"), "tools"), repeat("type")))
    if "custom" not in types:
        return _TOOLS if types else _NO_TOOLS
    return _CUSTOM_TOOLS if types.count("custom") == len(types) else _TOOLS | _CUSTOM_TOOLS


def as_text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def as_object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def as_list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def as_count(value: Json) -> int:
    """A positive count, else 0, also for absurdly large values."""
    return value if type(value) is int and 0 < value < _UNCOUNTABLE else 0  # a bool is an int too


def as_whole(value: Json) -> int | None:
    """The value if it is a whole number, also written as 3.0, else None."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def texts_of(content: Json, types: frozenset[str]) -> tuple[str, ...]:
    if isinstance(content, str):
        return (content,)
    return tuple(
        as_text(part.get("text"))
        for part in as_list(content)
        if isinstance(part, dict) and as_text(part.get("type")) in types and part.get("text")
    )


def parts_of(contents: list[Json]) -> Iterator[JsonObject]:
    """The parts of list contents. Plain texts, the usual case, are skipped in C."""
    lists = compress(contents, map(isinstance, contents, repeat(list)))
    return map(as_object, chain.from_iterable(lists))  # type: ignore[arg-type]  # each is a list


def shown(value: Json) -> str:
    return repr(value)[:40] if isinstance(value, (str, int, float, bool)) else type(value).__name__


def fingerprint(state: str) -> str:
    """A key for hidden state, from its ends and length: hashing the middle of a long blob is costly."""
    ends = state if len(state) <= 256 else f"{state[:128]}{state[-128:]}{len(state)}"
    return blake2b(ends.encode("utf-8", "replace"), digest_size=8).hexdigest()
