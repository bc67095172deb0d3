"""Changing single settings in the text of a config: comments, order and everything else stay as they are."""

from collections.abc import Mapping

import yaml


class CannotEdit(Exception):
    """The text has a form in which the setting has no line of its own."""


def set_values(text: str, block: str, values: Mapping[str, float | str]) -> str:
    """Set values inside one top-level block. A setting without a line gets one; a block that is absent is added at the end.

    Raises `CannotEdit` for a block that is written in one line with others' settings, as `{…}`, and for what is not YAML.
    """
    try:
        for name, value in values.items():
            text = _set_value(text, block, name, f'"{value}"' if isinstance(value, str) else f"{value:g}")
    except yaml.YAMLError as error:
        raise CannotEdit("the file is not valid YAML") from error
    return text


def _set_value(text: str, block: str, name: str, value: str) -> str:
    """Put the value where the parser's own marks say."""
    line_end = "\r\n" if "\r\n" in text else "\n"
    header, inner = _entry(yaml.compose(text, Loader=yaml.SafeLoader), block)
    if header is None or inner is None:
        gap = "" if text.endswith("\n") or not text else line_end
        return f"{text}{gap}{line_end}{block}:{line_end}  {name}: {value}{line_end}"
    _, found = _entry(inner, name)
    if isinstance(found, yaml.ScalarNode):
        return text[: found.start_mark.index] + value + text[found.end_mark.index :]
    if isinstance(inner, yaml.MappingNode) and not inner.flow_style:
        first = inner.value[0][0].start_mark
        begin = first.index - first.column
        return f"{text[:begin]}{' ' * first.column}{name}: {value}{line_end}{text[begin:]}"
    if inner.start_mark.index == inner.end_mark.index:
        begin = text.find("\n", header.end_mark.index) + 1
        before, after = (text[:begin], text[begin:]) if begin else (text + line_end, "")
        return f"{before}  {name}: {value}{line_end}{after}"
    raise CannotEdit(f"{block} is written on one line: put each of its settings on a line of its own, then try again")


def _entry(node: yaml.Node | None, name: str) -> tuple[yaml.Node | None, yaml.Node | None]:
    """The key and the value of a setting."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next(((key, value) for key, value in pairs if isinstance(key, yaml.ScalarNode) and key.value == name), (None, None))
