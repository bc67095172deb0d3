"""Blocks of settings: frozen structs that the config validates by their annotations, at no cost once they are built."""

from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import fields
from pydantic import Field
from pydantic_core import core_schema

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler

ELSEWHERE = "elsewhere"
"""Marks a field that follows from other settings: no file can set it."""
RESTART = "restart"
"""Marks a setting that is read only at the start: a change of it needs a restart."""
Seconds = Annotated[float, Field(gt=0, le=86_400)]


def settings_in(kind: type) -> dict[str, tuple[Any, object]]:
    """Fields that a file can set, by their name there: annotation and default."""
    own = {field.name: field for field in fields(kind)} if issubclass(kind, Struct) else {}
    hints = get_type_hints(kind, include_extras=True)
    return {
        own[name].encode_name if own else name: (hint, own[name].default if own else NODEFAULT)
        for name, hint in hints.items()
        if ELSEWHERE not in getattr(hint, "__metadata__", ()) and (name in own or not own)
    }


class Block(Struct, frozen=True):
    """A block of settings. Unknown settings are refused."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: "GetCoreSchemaHandler") -> core_schema.CoreSchema:
        settings, names = {}, {field.encode_name: field.name for field in fields(cls)}
        for name, (hint, default) in settings_in(cls).items():
            schema = handler.generate_schema(hint)
            schema = schema if default is NODEFAULT else core_schema.with_default_schema(schema, default=default)
            settings[name] = core_schema.typed_dict_field(schema, required=default is NODEFAULT)

        def build(given: object, check: core_schema.ValidatorFunctionWrapHandler) -> object:
            return given if isinstance(given, cls) else cls(**{names[name]: value for name, value in check(given).items()})

        content = core_schema.typed_dict_schema(settings, extra_behavior="forbid")
        written = core_schema.plain_serializer_function_ser_schema(
            lambda block: msgspec.to_builtins(block, enc_hook=str, order="deterministic")
        )
        return core_schema.no_info_wrap_validator_function(build, content, serialization=written)


class Stated:
    """Annotates a dict of those settings of a block that the file states."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def __get_pydantic_core_schema__(self, source: object, handler: "GetCoreSchemaHandler") -> core_schema.CoreSchema:
        settings = {
            name: core_schema.typed_dict_field(core_schema.nullable_schema(handler.generate_schema(hint)), required=False)
            for name, (hint, _) in settings_in(self.kind).items()
        }
        content = core_schema.typed_dict_schema(settings, extra_behavior="forbid")
        return core_schema.no_info_after_validator_function(_leave_out_nulls, content)


def _leave_out_nulls(stated: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in stated.items() if value is not None}
