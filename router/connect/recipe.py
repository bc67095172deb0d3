"""Recipes: a client's settings files, what goes into them, and how to run it without them.

One TOML file each in `clients/`. `{{name}}` is a fact of the router, `{{name|json}}` the fact as a quoted string, `{{name?}}`
one whose line is left out if absent; `${NAME:-path}` in a path is an environment variable with its default.
"""

import json
import os
import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

Facts = Mapping[str, str]
"""The router's address, models' windows and so on."""
_FACT = re.compile(r"\{\{(\w+)(\|json)?\??\}\}")
_OPTIONAL_LINE = re.compile(r"[^\n]*\{\{(\w+)(?:\|json)?\?\}\}[^\n]*\n?")
_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")
_MCP, _CATALOGUE = "mcp", "catalogue"
_ABOUT_FILE = ("path", "or_else", "format", "fact", "shells", "run_as", "needs")


@dataclass(frozen=True, slots=True)
class RecipeFile:
    paths: tuple[str, ...]
    """The first that exists is used, or else the first."""
    format: str
    piece: Mapping[str, str]
    fact: str = ""
    """The fact that holds the file's path."""
    shells: tuple[str, ...] = ()
    """Only for users of these shells."""
    run_as: str = ""
    """Its name in a run's temporary folder; empty if runs do not need it."""
    needs: str = ""
    """The fact without which it is left out."""

    @property
    def holds_key(self) -> bool:
        """Whether it contains the key itself, as the client cannot refer to a variable."""
        return any("{{key_value}}" in text or "{{own_key?}}" in text for text in self.piece.values())

    def is_wanted(self, facts: Facts) -> bool:
        return not self.needs or bool(facts.get(self.needs))

    def find(self) -> Path:
        paths = [expand(path) for path in self.paths]
        return next((path for path in paths if os.path.lexists(path)), paths[0])


@dataclass(frozen=True, slots=True)
class Run:
    """Starts the client without the person's files; ours are in a temporary `{{folder}}`."""

    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recipe:
    client: str
    name: str
    command: str
    install: str
    files: tuple[RecipeFile, ...]
    run: Run | None
    tiers: frozenset[str]
    """The client's names for auto, fast and deep."""
    choose: str
    after: str
    """What else a person must know or do."""
    variables: tuple[str, ...] = ()
    """Environment variables that may hold its address."""
    login: "Login | None" = None
    keeps_login: bool = False

    @property
    def is_installed(self) -> bool:
        return bool(self.command) and shutil.which(self.command) is not None

    @property
    def holds_key(self) -> bool:
        return any(file.holds_key for file in self.files)

    @property
    def lists_models(self) -> bool:
        """Whether it contains a list of the router's models."""
        return any(file.needs == _CATALOGUE for file in self.files)

    @property
    def takes_mcp(self) -> bool:
        return any(file.needs == _MCP or any("{{mcp" in text for text in file.piece.values()) for file in self.files)

    def files_here(self, shell: str) -> tuple[RecipeFile, ...]:
        """The files for this shell, without other shells' start-up files."""
        matching = tuple(file for file in self.files if shell in file.shells)
        return tuple(
            file for file in self.files if file in matching or (not file.shells and (not matching or file.format != "shell"))
        )


@dataclass(frozen=True, slots=True)
class Login:
    """A client's own login with a plan: how to notice it, and how to connect the client without ending it."""

    plan: str
    """The plan's name in `tandem init --plan`."""
    vendor: str
    log_in: str
    """The person's command."""
    status: tuple[str, ...]
    """Arguments of the client's own command that reports its login."""
    says: str
    """A pattern in its output for a login with a plan."""
    file: str
    """Where the login is kept. Never read: only whether it exists counts, if the client has no such command."""
    traces: str
    """Exists once the client was started. Before that it is not asked, as it would create its files."""
    kept: Recipe


def known_clients() -> tuple[str, ...]:
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in _folder()))


def installed_clients() -> tuple[Recipe, ...]:
    return tuple(recipe for recipe in map(load_recipe, known_clients()) if recipe.is_installed)


def load_recipe(client: str) -> Recipe:
    """Raises `KeyError` for an unknown client."""
    found = next((entry for entry in _folder() if entry.name == f"{client}.toml"), None)
    if found is None:
        raise KeyError(client)
    return read_recipe(client, found.read_text(encoding="utf-8"))


def read_recipe(client: str, text: str) -> Recipe:
    told = tomllib.loads(text)
    recipe, login = _read_settings(client, told), told.get("login")
    if login is None:
        return recipe
    kept = replace(_read_settings(client, {**told, **login}), keeps_login=True)
    about = {name: login[name] for name in ("plan", "vendor", "log_in", "says", "file", "traces")}
    return replace(recipe, login=Login(**about, status=tuple(login["status"]), kept=kept))


def _read_settings(client: str, told: Mapping[str, Any]) -> Recipe:
    run = told.get("run")
    return Recipe(
        client=client,
        name=told["name"],
        command=told.get("command", ""),
        install=told.get("install", ""),
        files=tuple(_read_file(file) for file in told["files"]),
        run=Run(tuple(run.get("arguments", ())), run.get("environment", {})) if run else None,
        tiers=frozenset(told.get("tiers", ())),
        choose=told["choose"].strip(),
        after=told.get("after", "").strip(),
        variables=tuple(told.get("variables", ())),
    )


def _read_file(told: Mapping[str, object]) -> RecipeFile:
    others = told.get("or_else", [])
    shells = told.get("shells", [])
    return RecipeFile(
        paths=(str(told["path"]), *map(str, others if isinstance(others, list) else ())),
        format=str(told["format"]),
        piece={key: str(value) for key, value in told.items() if key not in _ABOUT_FILE},
        fact=str(told.get("fact", "")),
        shells=tuple(map(str, shells if isinstance(shells, list) else ())),
        run_as=str(told.get("run_as", "")),
        needs=str(told.get("needs", "")),
    )


def _folder() -> Iterator["resources.abc.Traversable"]:
    folder = resources.files("router.connect") / "clients"
    return (entry for entry in folder.iterdir() if entry.name.endswith(".toml"))


def expand(path: str) -> Path:
    return Path(_VARIABLE.sub(lambda found: os.environ.get(found[1]) or found[2], path)).expanduser()


def fill(text: str, facts: Facts) -> str:
    text = _OPTIONAL_LINE.sub(lambda found: found[0] if facts.get(found[1]) else "", text)
    return _FACT.sub(lambda found: json.dumps(facts[found[1]]) if found[2] else facts[found[1]], text)
