"""Connecting and undoing: changes are planned first, then made together or not at all."""

import contextlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from router.connect import files, json_file, marks, toml_file, yaml_file
from router.connect.formats import CannotEdit, Format, Memo, Piece, Put, is_tier
from router.connect.json_file import drop_item, drop_member, find_node
from router.connect.recipe import Facts, Recipe, RecipeFile, fill
from router.connect.store import Entry, Record, Store


class OwnFile:
    """A file that is ours alone."""

    def put(self, text: str | None, piece: Piece) -> Put:
        return Put(piece["content"], [{"before": text, "written": piece["content"]}])

    def holds(self, text: str, piece: Piece, tiers: frozenset[str]) -> bool:
        return text == piece["content"]

    def take(self, text: str, memo: Memo, tiers: frozenset[str]) -> tuple[str | None, tuple[str, ...]]:
        """Restore the previous text. A file changed since is the person's, and stays."""
        if not memo:
            return text, ()
        if text != memo[0]["written"]:
            return text, ("was changed since, and stays",)
        before = memo[0]["before"]
        return (before if isinstance(before, str) else None), ()


class FlagFile:
    """A file that only has to exist, so that a client skips its first-start questions."""

    def put(self, text: str | None, piece: Piece) -> Put:
        return Put(piece["content"], [{"written": piece["content"]}]) if text is None else Put(text, [])

    def holds(self, text: str, piece: Piece, tiers: frozenset[str]) -> bool:
        return True

    def take(self, text: str, memo: Memo, tiers: frozenset[str]) -> tuple[str | None, tuple[str, ...]]:
        return (None if memo and text == memo[0]["written"] else text), ()


class ShellFile:
    """A shell's start-up file, with one marked block at its end, found even if moved."""

    def put(self, text: str | None, piece: Piece) -> Put:
        marks.check(text or "")
        return Put(marks.add_last(text or "", piece["lines"]), marks.note(piece["lines"]))

    def holds(self, text: str, piece: Piece, tiers: frozenset[str]) -> bool:
        return marks.lines_of(text) == [line.strip() for line in piece["lines"].strip("\n").splitlines()]

    def take(self, text: str, memo: Memo, tiers: frozenset[str]) -> tuple[str | None, tuple[str, ...]]:
        return (marks.remove(text, memo) if marks.has_block(text) else text), ()


FORMATS: Mapping[str, Format] = {
    "toml": cast(Format, toml_file),
    "yaml": cast(Format, yaml_file),
    "json": cast(Format, json_file),
    "shell": ShellFile(),
    "own": OwnFile(),
    "flag": FlagFile(),
}


class CannotConnect(Exception):
    """A file prevents the connection; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Change:
    path: Path
    before: bytes | None
    after: bytes | None
    format: str = ""
    base: bytes | None = None
    """The file without anything of ours."""
    memo: Memo | None = None
    notes: tuple[str, ...] = ()
    holds_key: bool = False
    """Whether it contains a person's key."""
    is_dropped: bool = False
    """Whether nothing of ours is left in it: the record forgets it."""

    @property
    def is_needed(self) -> bool:
        return self.before != self.after


def with_paths(recipe: Recipe, facts: Facts, shell: str) -> Facts:
    named = {file.fact: str(file.find()) for file in recipe.files_here(shell) if file.fact and file.is_wanted(facts)}
    return {**facts, **named}


def pieces(recipe: Recipe, facts: Facts, shell: str) -> list[tuple[RecipeFile, dict[str, str]]]:
    facts = with_paths(recipe, facts, shell)
    wanted = [file for file in recipe.files_here(shell) if file.is_wanted(facts)]
    return [(file, {key: fill(value, facts) for key, value in file.piece.items()}) for file in wanted]


def write_for_run(recipe: Recipe, facts: Facts, folder: Path) -> Facts:
    """Returns the facts with the files' paths."""
    needed = [file for file in recipe.files if file.run_as and file.is_wanted(facts)]
    facts = {**facts, "folder": str(folder), **{file.fact: str(folder / file.run_as) for file in needed if file.fact}}
    for file in needed:
        piece = {key: fill(value, facts) for key, value in file.piece.items()}
        files.write(folder / file.run_as, FORMATS[file.format].put(None, piece).text.encode())
    return facts


def plan_connection(recipe: Recipe, facts: Facts, store: Store, shell: str) -> list[Change]:
    """Files that only a connection of the other kind needs, with or without a login, go. Raises `CannotConnect`."""
    record = store.load(recipe.client)
    is_real = bool(facts["key_env"])
    changes = [
        _plan_file(file, piece, record, recipe.tiers, holds_key=is_real and file.holds_key)
        for file, piece in pieces(recipe, facts, shell)
    ]
    if record.keeps_login != recipe.keeps_login:
        unwanted = record.entries.keys() - {str(change.path) for change in changes}
        changes += [_plan_removal(Path(path), record.entries[path].format, record, recipe.tiers) for path in sorted(unwanted)]
    return changes


def _plan_file(file: RecipeFile, piece: Mapping[str, str], record: Record, tiers: frozenset[str], *, holds_key: bool) -> Change:
    path, form = file.find(), FORMATS[file.format]
    try:
        content = files.read(path)
        if content.text is not None and _is_ours(path, content.text, record) and form.holds(content.text, piece, tiers):
            return Change(path, content.raw, content.raw, file.format)
        base, _ = _without_ours(path, content.text, file.format, record, tiers)
        new = form.put(base, piece)
    except (CannotEdit, OSError) as error:
        raise CannotConnect(_explain(path, error)) from error
    base_raw = content.with_text(base)
    return Change(path, content.raw, content.with_text(new.text), file.format, base_raw, new.memo, holds_key=holds_key)


def _is_ours(path: Path, text: str, record: Record) -> bool:
    """Whether a file may hold settings of ours. One that is merely equal is the person's and stays."""
    return str(path) in record.entries or "tandem connect" in text


def _without_ours(
    path: Path, text: str | None, form: str, record: Record, tiers: frozenset[str]
) -> tuple[str | None, tuple[str, ...]]:
    """By our record, or else by the marks."""
    entry = record.entries.get(str(path))
    if text is None:
        return None, ()
    left, notes = FORMATS[entry.format if entry else form].take(text, entry.memo if entry else [], tiers)
    return (None if left == "" and entry is not None and not entry.existed else left), notes


def plan_undo(recipe: Recipe, store: Store, shell: str) -> list[Change]:
    """Raises `CannotConnect`."""
    record = store.load(recipe.client)
    forms = {str(file.find()): file.format for file in recipe.files_here(shell)}
    forms |= {path: entry.format for path, entry in record.entries.items()}
    return [_plan_removal(Path(path), form, record, recipe.tiers) for path, form in forms.items()]


def _plan_removal(path: Path, form: str, record: Record, tiers: frozenset[str]) -> Change:
    try:
        content = files.read(path)
        left, notes = _without_ours(path, content.text, form, record, tiers)
    except (CannotEdit, OSError) as error:
        raise CannotConnect(_explain(path, error)) from error
    return Change(path, content.raw, content.with_text(left), form, notes=notes, is_dropped=True)


def plan_undo_without_record(recipe: Recipe, facts: Facts, shell: str, address: re.Pattern[str]) -> list[Change]:
    """Remove settings with our address, if any. Raises `CannotConnect`."""
    facts = {**facts, "catalogue": facts.get("catalogue") or "{}", "own_key": facts["key_value"]}
    ways = (recipe, recipe.login.kept) if recipe.login else (recipe,)
    found = dict[Path, list[tuple[RecipeFile, dict[str, str]]]]()
    for file, piece in (one for way in ways for one in pieces(way, facts, shell)):
        found.setdefault(file.find(), []).append((file, piece))
    changes, is_there = [], False
    for path, ours in found.items():
        try:
            content = files.read(path)
            left, notes = content.text, tuple[str, ...]()
            is_there |= left is not None and (address.search(left) is not None or "tandem connect" in left)
            for file, piece in ours:
                if left is not None:
                    left, notes = take_without_record(file.format, FORMATS[file.format], left, piece, recipe.tiers, address)
        except (CannotEdit, OSError) as error:
            raise CannotConnect(_explain(path, error)) from error
        changes.append(Change(path, content.raw, content.with_text(left), ours[0][0].format, notes=notes))
    return changes if is_there else []


def connect(recipe: Recipe, changes: Iterable[Change], store: Store, key_env: str = "", *, has_mcp: bool = False) -> None:
    """Make the changes, and record how to undo them. Raises `CannotConnect`, having changed nothing."""
    changes = list(changes)
    needed = [change for change in changes if change.is_needed]
    record = store.load(recipe.client)
    record.key_env, record.has_mcp, record.keeps_login = key_env, has_mcp, recipe.keeps_login
    for change in needed:
        if change.is_dropped:
            continue
        known = record.entries.get(str(change.path))
        copy = known.backup if known else ""
        if change.base is not None and store.read_copy(recipe.client, copy) != change.base:
            copy = store.keep_copy(recipe.client, change.path.name, change.base)
        record.entries[str(change.path)] = Entry(change.format, change.base is not None, change.memo or [], copy)
    # Recorded first: after an interruption, undo finds nothing of ours in the files and only drops the record.
    before = store.load(recipe.client)
    store.save(recipe.client, record)
    try:
        made = _make(needed)
    except CannotConnect:
        if before.entries:
            store.save(recipe.client, before)
        else:
            store.forget(recipe.client, [])
        raise
    record.folders = [*map(str, made), *record.folders]
    for change in changes:
        if change.is_dropped:
            record.entries.pop(str(change.path), None)
    with contextlib.suppress(OSError):  # the disk is full now: undo will leave the new folders, empty
        store.save(recipe.client, record)


def undo(recipe: Recipe, changes: Iterable[Change], store: Store) -> list[Path]:
    """Make the changes and drop the record. Returns kept copies of files that others changed since."""
    changes, record = list(changes), store.load(recipe.client)
    _make([change for change in changes if change.is_needed])
    files.remove_folders([Path(folder) for folder in record.folders])
    kept = []
    for change in changes:
        entry = record.entries.get(str(change.path))
        copy = store.read_copy(recipe.client, entry.backup) if entry else None
        if entry is not None and copy is not None and copy != change.after:
            kept.append(entry.backup)
    if not record.entries:  # lost: the copies are all that is left of the originals
        kept = [copy.name for copy in store.copies(recipe.client)]
    store.forget(recipe.client, kept)
    return [store.path_of(recipe.client, copy) for copy in kept]


def _make(changes: list[Change]) -> list[Path]:
    """Write every file; if one fails, restore the earlier ones."""
    made: list[Path] = []
    done: list[Change] = []
    for change in changes:
        try:
            if files.read(change.path).raw != change.before:
                raise CannotEdit("it changed in the meantime: try again")
            made = [*_write(change.path, change.after, private=change.holds_key), *made]
        except (CannotEdit, OSError) as error:
            for earlier in reversed(done):
                _write(earlier.path, earlier.before)
            files.remove_folders(made)
            raise CannotConnect(_explain(change.path, error)) from error
        done.append(change)
    return made


def _write(path: Path, raw: bytes | None, *, private: bool = False) -> list[Path]:
    if raw is not None:
        return files.write(path, raw, private=private)
    files.remove(path)
    return []


def _explain(path: Path, error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{path} cannot be changed: {error.strerror or error}"
    return f"{path}: {error}"


_NUMBER = re.compile(r"\d+")
_OWN_HEADER = "x-tandem-key: "


def take_without_record(
    form: str, formats: Format, text: str, piece: Piece, tiers: frozenset[str], address: re.Pattern[str]
) -> tuple[str | None, tuple[str, ...]]:
    """What was there before us is unknown and stays lost."""
    if form == "json":
        wanted = json.loads(piece["values"])
        for key, value in wanted.items():
            text = _take_alike(text, (key,), value, tiers, address)
        return (None if not text.strip(" \t\r\n{}") else text), ()
    if form == "own":
        return None, ()  # its name is ours
    if form == "flag":
        return (None if text == piece["content"] else text), ()
    return formats.take(text, [], tiers)


def _take_alike(text: str, path: tuple[str, ...], ours: object, tiers: frozenset[str], address: re.Pattern[str]) -> str:
    node = find_node(text, path)
    if node is None:
        return text
    if _is_alike(node.value, ours, tiers, address) or path[-1] == "tandem":
        return drop_member(text, path)
    if isinstance(ours, dict) and isinstance(node.value, dict):
        for key, value in ours.items():
            text = _take_alike(text, (*path, key), value, tiers, address)
    elif isinstance(ours, list) and isinstance(node.value, list):
        for item in node.value:
            if item in ours or address.search(json.dumps(item)):
                text = drop_item(text, path, item)
    left = find_node(text, path)
    is_emptied = left is not None and left.value in ({}, []) and node.value not in ({}, [])
    return drop_member(text, path) if is_emptied else text


def _is_alike(found: object, ours: object, tiers: frozenset[str], address: re.Pattern[str]) -> bool:
    """Whether we may have written a value: windows and model names change over time."""
    if found == ours or (is_tier(found, tiers) and is_tier(ours, tiers)):
        return True
    if isinstance(found, int) and isinstance(ours, int):
        return not isinstance(found, bool)
    if isinstance(found, str) and isinstance(ours, str):
        is_header = found.startswith(_OWN_HEADER) and ours.startswith(_OWN_HEADER)
        return is_header or bool(address.search(found)) or bool(_NUMBER.fullmatch(found) and _NUMBER.fullmatch(ours))
    if isinstance(found, dict) and isinstance(ours, dict):
        # An object about the router alone, such as a provider.
        return any(isinstance(value, str) and address.search(value) for value in found.values()) and set(found) <= set(ours)
    return False
