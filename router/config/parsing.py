"""YAML into plain values, with parser errors reworded into a line and a fix."""

import re
from collections.abc import Hashable, Mapping
from typing import cast

import yaml

from router.config.faults import ConfigError, Fault
from router.config.reading import MAX_BYTES

_MAX_BRACKETS = 5_000
"""Parsing time grows with nesting; no person's config comes near this."""
MAX_ENTRIES = 10_000
_ENTRY = re.compile(r"[:,]\s|^\s*-\s", re.MULTILINE)
_ODD_BLANK = re.compile(r"^[ \t]*([\u00a0\u2000-\u200b\u202f\u205f\u3000])", re.MULTILINE)
_TAB = re.compile(r"^[ ]*\t", re.MULTILINE)
_TOML = re.compile(r"^\s*(\[[\w.\"-]+\]|[\w.-]+\s*=\s*\S.*)\s*$", re.MULTILINE)
_STARRED = re.compile(r"(?<![\w\"'])(\*[^\s:,\[\]{}]*)")
_TAG = re.compile(r"'(![^']*)'")
_BOOL, _TEXT = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:str"
_ANCHORS = "anchors and aliases are not supported"


class PlainLoader(yaml.SafeLoader):
    """YAML without anchors: a few lines must not expand to gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]  # untyped library
            raise yaml.MarkedYAMLError(problem=_ANCHORS, problem_mark=mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.MarkedYAMLError(problem=f'duplicate key "{key.value}"', problem_mark=key.start_mark)
                seen.add(key.value)
                if key.tag == _BOOL:  # YAML 1.1 reads `on:` as true, and it is a setting
                    key.tag = _TEXT
        return super().construct_mapping(node, deep)


def parse(text: str, source: str, max_entries: int = MAX_ENTRIES) -> Mapping[str, object]:
    """Raises `ConfigError`."""
    if fault := _find_fault(text, max_entries):
        raise ConfigError(source, [fault])
    try:
        content = yaml.load(text, Loader=PlainLoader)  # noqa: S506  a stricter SafeLoader
    except yaml.YAMLError as error:
        raise ConfigError(source, [explain(error, text)]) from error
    except RecursionError as error:
        raise ConfigError(source, [Fault("file", "is nested too deeply")]) from error
    except ValueError as error:  # a number or date that Python does not allow
        raise ConfigError(source, [Fault("file", f"has a value that cannot be read: {error}", "put it in quotes")]) from error
    if not isinstance(content, dict):
        raise ConfigError(source, [_not_settings(text)])
    return cast("Mapping[str, object]", content)


def _find_fault(text: str, max_entries: int) -> Fault | None:
    """Checked without parsing: files that no person wrote, and no-break spaces."""
    if len(text) > MAX_BYTES:
        return Fault("file", f"is over {MAX_BYTES} bytes")
    if text.count("[") + text.count("{") > _MAX_BRACKETS:
        return Fault("file", f"has more than {_MAX_BRACKETS} brackets")
    if len(_ENTRY.findall(text)) > max_entries:
        return Fault("file", f"has more than {max_entries} settings", "name the right file with --config")
    if odd := _ODD_BLANK.search(text):
        return Fault(_line(text, odd.start(1)), "is indented with a no-break space", "replace it with plain spaces")
    return None


def _not_settings(text: str) -> Fault:
    if not text.strip():
        return Fault("file", "is empty", "tandem init writes one")
    if _TOML.search(text):
        return Fault("file", "is not YAML: it looks like TOML", 'a setting is written as "name: value"')
    return Fault("file", 'must contain settings, as "name: value"', "tandem init writes one")


def explain(error: yaml.YAMLError, text: str) -> Fault:
    problem, context = str(getattr(error, "problem", None) or ""), str(getattr(error, "context", None) or "")
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        return Fault("file", problem or "contains a character that is not allowed", "save it as plain text")
    begun = getattr(error, "context_mark", None)
    where, lines = f"line {mark.line + 1}, column {mark.column + 1}", text.split("\n")
    line = lines[mark.line] if mark.line < len(lines) else ""
    if tab := _TAB.search("\n".join(lines[: mark.line + 1])):
        return Fault(_line(text, tab.start()), "is indented with a tab", "indent with spaces")
    if _is_starred(problem, context, line):
        return _explain_star(where, problem, line)
    if "constructor for the tag" in problem:
        tag = _TAG.search(problem)
        return Fault(where, f"{tag[1] if tag else 'a tag'} is not supported", "a config is one file without includes or tags")
    if "another document" in problem:
        return Fault(where, "a second document begins here", "a config is one document: remove the line ---")
    if "<document start>" in problem:
        looks = "is not YAML: it looks like TOML" if _TOML.search(text) else "is not YAML"
        return Fault(where, looks, 'a setting is written as "name: value"')
    if "quoted scalar" in context and begun is not None:
        return Fault(f"line {begun.line + 1}, column {begun.column + 1}", "a quote is not closed", "close it on the same line")
    if "flow" in context and (opened := _find_open_bracket(text, mark.index)) is not None:
        hint = "close it, or put each setting on a line of its own"
        if "<stream end>" in problem:  # after the last line, where nobody looks
            return Fault(
                f"line {opened.line + 1}, column {opened.column + 1}", "the bracket that opens here is not closed", hint
            )
        return Fault(where, f"the bracket that opens in line {opened.line + 1} is not closed, or a comma is missing", hint)
    return _explain_block(where, mark.line, problem, lines)


def _find_open_bracket(text: str, index: int) -> yaml.Mark | None:
    """The innermost bracket that is open at `index`. The parser names the place of what it missed instead."""
    opened: list[yaml.Mark] = []
    for token in yaml.scan(text, PlainLoader):
        if token.start_mark.index >= index:
            break
        if isinstance(token, yaml.FlowSequenceStartToken | yaml.FlowMappingStartToken):
            opened.append(token.start_mark)
        elif opened and isinstance(token, yaml.FlowSequenceEndToken | yaml.FlowMappingEndToken):
            opened.pop()
    return opened[-1] if opened else None


def _is_starred(problem: str, context: str, line: str) -> bool:
    return problem == _ANCHORS or "alias" in context or ("anchor" in context and "&" in line)


def _explain_star(where: str, problem: str, line: str) -> Fault:
    """An alias, or a pattern such as *haiku* that is read as one."""
    starred = _STARRED.search(line)
    is_key = starred is not None and line[starred.end() :].lstrip().startswith(":")
    if starred is not None and (is_key or "*" in starred[1][1:] or problem != _ANCHORS):
        return Fault(where, "a name that begins with * must be in quotes", f'write "{starred[1]}"')
    return Fault(where, _ANCHORS, "write the block twice")


def _explain_block(where: str, number: int, problem: str, lines: list[str]) -> Fault:
    """Usually its indentation does not fit the lines before."""
    before = next((n for n in range(min(number, len(lines)) - 1, -1, -1) if _is_content(lines[n])), None)
    here = lines[number] if number < len(lines) else ""
    if before is not None and _indent(here) != _indent(lines[before]) and _is_content(here):
        said = f"is indented by {_indent(here)} spaces, and line {before + 1} by {_indent(lines[before])}"
        return Fault(where, said, "settings of one block begin in the same column")
    if "mapping values are not allowed" in problem:
        return Fault(where, "has a second colon", "put a value that contains a colon and a space in quotes")
    if "could not find expected ':'" in problem:
        return Fault(where, 'is not a setting, as in "name: value"', "put a space after the colon")
    return Fault(where, problem or "is not valid YAML", "tandem init writes a config that is")


def _is_content(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _line(text: str, offset: int) -> str:
    return f"line {text.count(chr(10), 0, offset) + 1}"
