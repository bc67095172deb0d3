"""Changing single settings in the text of a config: comments, order and everything else stay as they are."""

import re
from collections.abc import Mapping

import yaml


class CannotEdit(Exception):
    """The text has a form in which the setting has no line of its own."""


def set_values(text: str, block: str, values: Mapping[str, float]) -> str:
    """Set numbers inside one top-level block. A setting without a line gets one; a block that is absent is added at the end.

    Raises `CannotEdit` for a block that is written in one line with others' settings, as `{…}`.
    """
    for name, value in values.items():
        text = _set_value(text, block, name, f"{value:g}")
    return text


def _set_value(text: str, block: str, name: str, value: str) -> str:
    place = _find(text, block, name)
    if place is not None:
        start, end = place
        return text[:start] + value + text[end:]
    header = re.search(rf"^{re.escape(block)}:[ \t]*(#.*)?$", text, re.MULTILINE)
    if header:
        inner = re.compile(r"^([ ]+)\S", re.MULTILINE).search(text, header.end())
        indent = inner.group(1) if inner else "  "
        return f"{text[: header.end()]}\n{indent}{name}: {value}{text[header.end() :]}"
    if re.search(rf"^{re.escape(block)}:", text, re.MULTILINE):
        raise CannotEdit(f"{block} stands in one line: write its settings one below the other, then try again")
    return f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}\n{block}:\n  {name}: {value}\n"


def _find(text: str, block: str, name: str) -> tuple[int, int] | None:
    """Where the value of a setting stands, by the parser's own marks."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    inner = _child(root, block)
    found = _child(inner, name)
    if not isinstance(found, yaml.ScalarNode):
        return None
    return found.start_mark.index, found.end_mark.index


def _child(node: yaml.Node | None, name: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for key, value in node.value if isinstance(key, yaml.ScalarNode) and key.value == name), None)
