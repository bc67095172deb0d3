"""Blocks of settings: their base, their fields, and the docstring below each field."""

import ast
import inspect
import itertools
from collections.abc import Iterator
from datetime import date, datetime
from typing import Annotated, Any, get_args
from urllib.parse import urlsplit

from msgspec import NODEFAULT
from pydantic import BaseModel, BeforeValidator, ConfigDict
from pydantic.fields import FieldInfo
from pydantic.json_schema import WithJsonSchema

from router.contract.block import Block, Stated, settings_in


class Settings(BaseModel):
    """A block of settings: frozen, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _as_text(value: object) -> object:
    """A number or date (YAML reads `2024-10-21` as one) as written in the file."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


ExtraValue = Annotated[str, BeforeValidator(_as_text), WithJsonSchema({"type": ["string", "integer"]})]


def fits_header(value: str) -> bool:
    return value.isascii() and value.isprintable()


def find_address_fault(url: str) -> str:
    """The fault of an address; empty if it is valid."""
    if not fits_header(url) or " " in url:
        return "must not contain line breaks, spaces, or non-ASCII characters"
    try:
        parts = urlsplit(url)
    except ValueError:  # an unclosed bracket, or no IPv6 address in it
        return "is not a valid address; IPv6 is written http://[::1]:8000/v1"
    if not parts.hostname:
        return "must name a host, as in https://api.example.com/v1"
    port = parts.netloc.rpartition("]")[2].rpartition(":")
    if port[1] and not (port[2].isdigit() and 1 <= int(port[2][:6]) <= 65_535):
        return "must have a port between 1 and 65535, or none"
    return ""


def fields_of(kind: type) -> dict[str, FieldInfo]:
    if issubclass(kind, BaseModel):
        return kind.model_fields
    return {
        name: FieldInfo.from_annotation(hint) if default is NODEFAULT else FieldInfo.from_annotated_attribute(hint, default)
        for name, (hint, default) in settings_in(kind).items()
    }


def inner_block(field: FieldInfo) -> type | None:
    """The block in a setting, or in its list, as in `tuple[TargetSettings, ...]`."""
    stated = next((mark.kind for mark in field.metadata if isinstance(mark, Stated)), None)
    return stated or next(_blocks_in(field.annotation), None)


def _blocks_in(annotation: Any) -> Iterator[type]:
    if inspect.isclass(annotation) and issubclass(annotation, (BaseModel, Block)):
        yield annotation
    for part in get_args(annotation):
        yield from _blocks_in(part)


def field_notes(kind: type) -> dict[str, str]:
    """The docstring below each field of a class, without inherited ones."""
    (body,) = ast.parse(inspect.cleandoc("\n" + inspect.getsource(kind))).body
    notes = {}
    for field, note in itertools.pairwise(getattr(body, "body", ())):
        if isinstance(field, ast.AnnAssign) and isinstance(note, ast.Expr) and isinstance(note.value, ast.Constant):
            notes[ast.unparse(field.target)] = " ".join(str(note.value.value).split())
    return notes
