"""Where a client points, judged by its files and variables."""

import os
import re
from collections.abc import Iterator
from enum import StrEnum
from urllib.parse import urlsplit

from router.connect import files
from router.connect.change import CannotConnect, plan_connection
from router.connect.formats import CannotEdit
from router.connect.key import with_key
from router.connect.recipe import Facts, Recipe
from router.connect.store import Store

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class Pointing(StrEnum):
    HERE = "connected"
    WITHOUT_LOGIN = "connected, without its login, which a target of the config would take"
    BY_HAND = "connected, by settings of your own"
    OUTDATED = "connected, with older settings"
    ELSEWHERE = "was connected, now points elsewhere"
    NOT_HERE = "not connected"
    UNKNOWN = "not known: the record of what was changed cannot be read"

    @property
    def is_here(self) -> bool:
        return self in (Pointing.HERE, Pointing.WITHOUT_LOGIN, Pointing.BY_HAND, Pointing.OUTDATED)

    @property
    def options(self) -> str:
        """For `tandem connect`, to have it point here in full."""
        return " --keep-login" if self is Pointing.WITHOUT_LOGIN else ""


def where_it_points(recipe: Recipe, facts: Facts, store: Store, shell: str) -> Pointing:
    """`HERE` is exactly what `tandem connect` would write now."""
    try:
        record = store.load(recipe.client)
    except OSError:
        return Pointing.UNKNOWN
    if record.keeps_login and recipe.login is not None:
        recipe = recipe.login.kept
    if record.key_env:
        facts = with_key(facts, record.key_env, os.environ.get(record.key_env, ""))
    try:
        if not any(change.is_needed for change in plan_connection(recipe, facts, store, shell)):
            may_keep = recipe.login is not None and recipe.login.vendor in facts["logins"].split()
            return Pointing.WITHOUT_LOGIN if may_keep and not record.keeps_login else Pointing.HERE
    except CannotConnect:
        pass
    address = address_pattern(facts["url"])
    if any(address.search(told) for told in _tellings(recipe, shell)):
        return Pointing.OUTDATED if record.entries else Pointing.BY_HAND
    return Pointing.ELSEWHERE if record.entries else Pointing.NOT_HERE


def address_pattern(url: str) -> re.Pattern[str]:
    """Matches an address in all spellings: this machine has three names."""
    parts = urlsplit(url)
    host, colon, port = parts.netloc.rpartition(":")
    if not colon or "]" in port:  # the scheme's default port
        host, port = parts.netloc, ""
    names = "|".join(map(re.escape, _LOOPBACK if host in _LOOPBACK else (host,)))
    return re.compile(rf"//(?:{names}){f':{port}' if port else ''}{re.escape(parts.path)}(?![\w.:-])")


def _tellings(recipe: Recipe, shell: str) -> Iterator[str]:
    for variable in recipe.variables:
        yield os.environ.get(variable, "")
    for file in recipe.files_here(shell):
        try:
            yield files.read(file.find()).text or ""
        except (CannotEdit, OSError):
            continue
