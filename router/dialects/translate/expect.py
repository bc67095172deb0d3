"""Typed fields of a request to be translated, refused by name if they have another type.

A misread field would reach the target as something else and be answered.
"""

from collections.abc import Collection, Iterator
from typing import Any, TypeVar

from router.contract.digits import Digits
from router.contract.errors import BadRequest
from router.contract.request import Json, JsonObject

_T = TypeVar("_T")
_NAMES: dict[type, str] = {
    str: "a string",
    bool: "true or false",
    int: "a number",
    float: "a number",
    Digits: "a number",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def refuse(where: str, what: str) -> BadRequest:
    return BadRequest(f"{where}: {what}", param=where)


def unexpected(where: str, value: Json, wanted: str) -> BadRequest:
    return refuse(where, f"must be {wanted}, not {_NAMES[type(value)]}")


def at(where: str, name: str) -> str:
    """The path of a field; `where` is empty at the top level."""
    return f"{where}.{name}" if where else name


def _typed(holder: JsonObject, name: str, where: str, otherwise: _T) -> _T:
    value: Any = holder.get(name)
    if value is None:
        return otherwise
    if not isinstance(value, type(otherwise)):
        raise unexpected(at(where, name), value, _NAMES[type(otherwise)])
    return value


def text(holder: JsonObject, name: str, where: str = "") -> str:
    return _typed(holder, name, where, "")


def needed_text(holder: JsonObject, name: str, where: str = "") -> str:
    found = text(holder, name, where)
    if not found:
        raise refuse(at(where, name), "missing. Send a non-empty string")
    return found


def flag(holder: JsonObject, name: str, where: str = "") -> bool | None:
    value = holder.get(name)
    if value is not None and not isinstance(value, bool):
        raise unexpected(at(where, name), value, "true or false")
    return value


def whole(holder: JsonObject, name: str, where: str = "") -> int | None:
    """A whole number, also written as 3.0, or None."""
    value = holder.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise unexpected(at(where, name), value, "a whole number")
    if isinstance(value, float) and not value.is_integer():
        raise refuse(at(where, name), f"must be a whole number, not {value}")
    return int(value)


def first_whole(holder: JsonObject, names: Collection[str]) -> int | None:
    return next((value for name in names if (value := whole(holder, name)) is not None), None)


def mapping(holder: JsonObject, name: str, where: str = "") -> JsonObject:
    return _typed(holder, name, where, {})


def needed_mapping(holder: JsonObject, name: str, where: str = "") -> JsonObject:
    if holder.get(name) is None:
        raise refuse(at(where, name), "missing. Send an object")
    return mapping(holder, name, where)


def sequence(holder: JsonObject, name: str, where: str = "") -> list[Json]:
    return _typed(holder, name, where, [])


def entries(values: list[Json], where: str) -> Iterator[tuple[JsonObject, str]]:
    for index, value in enumerate(values):
        path = f"{where}[{index}]"
        if not isinstance(value, dict):
            raise unexpected(path, value, "an object")
        yield value, path


def words(values: list[Json], where: str) -> list[str]:
    found: list[str] = []
    for index, value in enumerate(values):
        if not isinstance(value, str):
            raise unexpected(f"{where}[{index}]", value, "a string")
        found.append(value)
    return found


def content(holder: JsonObject, name: str, where: str, *, may_be_absent: bool = False) -> str | list[tuple[JsonObject, str]]:
    value, path = holder.get(name), at(where, name)
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return list(entries(value, path))
    if value is None and may_be_absent:
        return []
    raise unexpected(path, value, "a string or a list of parts")


def one_of(value: str, known: Collection[str], where: str) -> str:
    if value not in known:
        raise refuse(where, f'unknown value "{value[:40]}"')
    return value
