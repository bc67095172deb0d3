"""Edits single lines of `keys.yaml`. The result is parsed and compared before it replaces the file."""

import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import yaml

from router.cli.config_file import CannotEdit, compose, find_entry, last_index, line_end, next_line, with_line_end
from router.config.key_file import CallerSettings, KeyFile, KeySettings, parse_keys, read_key_file
from router.config.reading import read_config
from router.connect import files

_HEADER = "# Callers, what each may do, and digests of their keys. `tandem keys` changes this file, and keeps your comments.\n"
_HOW_TO_WRITE = "begin callers, every caller and every key on a line of its own, as tandem keys add writes them"


def change_key_file(path: Path, change: Callable[[KeyFile], KeyFile]) -> KeyFile:
    """Change or create a key file, under a lock. Raises `ConfigError`, `CannotEdit` for an unusual form, and `OSError`."""
    path = path.resolve()
    with _locked(path.parent) as folder:
        seen = _identity_of(path)
        before = read_key_file(path) if seen is not None else KeyFile()
        text = read_config(path)[0] if seen is not None else _HEADER
        after = change(before)
        new = _edit(text, before, after)
        if parse_keys(new, str(path)) != after:
            raise CannotEdit(f"the file has an unusual form: {_HOW_TO_WRITE}")
        if _identity_of(path) != seen:
            raise CannotEdit("another program changed the file at the same moment: try again")
        if seen is not None and os.geteuid() not in (0, path.stat().st_uid):  # the router could no longer read it
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))
        files.write(path, new.encode())
        with contextlib.suppress(OSError):
            os.fsync(folder)  # a key that was handed out must survive a power cut
    return after


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Lock the folder, since the file is replaced; yields its handle."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def _identity_of(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _edit(text: str, before: KeyFile, after: KeyFile) -> str:
    for name in before.callers.keys() - after.callers.keys():
        text = _remove_caller(text, name)
    for name, caller in after.callers.items():
        if name not in before.callers:
            text = _add_caller(text, name, caller)
        elif before.callers[name] != caller:
            text = _change_rights(text, name, _write_rights(before.callers[name]), _write_rights(caller))
            text = _change_keys(text, name, before.callers[name].keys, caller.keys)
    return text


def _add_caller(text: str, name: str, caller: CallerSettings) -> str:
    header, callers = find_entry(compose(text), "callers")
    end = line_end(text)
    if header is None or callers is None:
        text = with_line_end(text) + f"callers:{end}"
        place, indent = len(text), 2
    elif isinstance(callers, yaml.MappingNode) and callers.value:
        first, last = callers.value[0][0], callers.value[-1][1]
        _require_block(callers)
        place, indent = next_line(text, last_index(last)), first.start_mark.column
    else:
        if callers.end_mark.index > callers.start_mark.index:  # `{}`, `null`
            text = text[: callers.start_mark.index].rstrip(" ") + text[callers.end_mark.index :]
        place, indent = next_line(text, header.end_mark.index), 2
    settings = [*(f"{right}: {value}" for right, value in _write_rights(caller).items()), "keys:"]
    lines = [f"{' ' * indent}{_write_name(name)}:", *(f"{' ' * (indent + 2)}{line}" for line in settings)]
    lines += [f"{' ' * (indent + 4)}{_write_key(key)}" for key in caller.keys]
    return with_line_end(text[:place]) + "".join(f"{line}{end}" for line in lines) + text[place:]


def _remove_caller(text: str, name: str) -> str:
    _, callers = find_entry(compose(text), "callers")
    _require_block(callers)
    key, value = find_entry(callers, name)
    if key is None or value is None:
        raise CannotEdit(f"{name} was not found in the file: {_HOW_TO_WRITE}")
    begin, end = _line_of(text, key.start_mark.index), next_line(text, last_index(value))
    return text[:begin] + text[end:]


def _change_rights(text: str, name: str, before: dict[str, str], after: dict[str, str]) -> str:
    """Write a caller's rights. New lines come first; comments after values stay."""
    for right in [right for right in {**before, **after} if before.get(right) != after.get(right)]:
        _, callers = find_entry(compose(text), "callers")
        _, caller = find_entry(callers, name)
        _require_block(caller)
        assert isinstance(caller, yaml.MappingNode)
        header, value = find_entry(caller, right)
        if header is None or value is None:
            first = caller.value[0][0].start_mark
            begin = stop = first.index
            new = f"{right}: {after[right]}{line_end(text)}{' ' * first.column}"
        elif right in after:
            begin, stop, new = header.start_mark.index, last_index(value), f"{right}: {after[right]}"
        else:
            begin, stop, new = _line_of(text, header.start_mark.index), next_line(text, last_index(value)), ""
        text = text[:begin] + new + text[stop:]
    return text


def _change_keys(text: str, name: str, before: Sequence[KeySettings], after: Sequence[KeySettings]) -> str:
    """Write a caller's keys, new ones last. Lines of unchanged keys stay."""
    if before == after:
        return text
    _, callers = find_entry(compose(text), "callers")
    _, caller = find_entry(callers, name)
    _require_block(caller)
    header, keys = find_entry(caller, "keys")
    if header is None or keys is None:
        raise CannotEdit(f"{name} has no line keys: {_HOW_TO_WRITE}")
    end, wanted = line_end(text), {key.id: key for key in after}
    items = keys.value if isinstance(keys, yaml.SequenceNode) else []
    if items or keys.end_mark.index > keys.start_mark.index:
        _require_block(keys)
    spans = [(_line_of(text, item.start_mark.index), next_line(text, last_index(item))) for item in items]
    place = spans[-1][1] if spans else next_line(text, header.end_mark.index)
    indent = " " * (keys.start_mark.column if spans else header.start_mark.column + 2)
    edits = []
    for key, (begin, stop) in zip(before, spans, strict=True):
        now = wanted.pop(key.id, None)
        if now != key:
            edits.append((begin, stop, f"{indent}{_write_key(now)}{end}" if now is not None else ""))
    edits.append((place, place, "".join(f"{indent}{_write_key(key)}{end}" for key in wanted.values())))
    for begin, stop, new in reversed(edits):
        text = (with_line_end(text[:begin]) if new else text[:begin]) + new + text[stop:]
    return text


def _require_block(node: yaml.Node | None) -> None:
    if not isinstance(node, yaml.CollectionNode) or node.flow_style:
        raise CannotEdit(f"the file has several settings on one line: {_HOW_TO_WRITE}")


def _line_of(text: str, index: int) -> int:
    return text.rfind("\n", 0, index) + 1


def _write_name(name: str) -> str:
    """A name, quoted where YAML would read something else: `2026`, `yes`."""
    return name if yaml.safe_load(name) == name else json.dumps(name)


def _write_rights(caller: CallerSettings) -> dict[str, str]:
    return {
        name: f"[{', '.join(value)}]" if isinstance(value, list) else json.dumps(value).removesuffix(".0")
        for name, value in caller.model_dump(mode="json", exclude_defaults=True, exclude={"keys"}).items()
    }


def _write_key(key: KeySettings) -> str:
    """A key's line. Ids and digests are quoted: some look like numbers."""
    expires = f", expires: {_write_time(key.expires)}" if key.expires is not None else ""
    return f'- {{id: "{key.id}", sha256: "{key.sha256}", created: {_write_time(key.created)}{expires}}}'


def _write_time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
