"""`tandem keys forget`: delete everything kept about a caller."""

from collections.abc import Iterator
from pathlib import Path

from router.cli import Ended
from router.cli.common import command_name, load_in_use, print_json, say
from router.cli.figures import plural
from router.cli.setup.interview import offer
from router.cli.tables import style_here
from router.cli.text import clean
from router.config.load import LoadedConfig
from router.contract.caller import Caller
from router.contract.request import JsonObject
from router.contract.shared import ValkeyTerms
from router.contract.stores import StoreUnusable
from router.stores.sqlite.forget import Kept, count_kept, forget_in_copies
from router.stores.sqlite.forget import forget_caller as forget_in_file
from router.stores.sqlite.lock import find_owner
from router.stores.sqlite.past import wait_for_writer
from router.stores.sqlite.schemas import find_copies
from router.wiring.stores import JOBS_FILE

_WORDS = {
    "requests": "request",
    "sessions": "session",
    "marks": "mark",
    "places": "hashed ask",
    "responses": "stored response",
    "jobs": "background job",
}
_GONE_IN_TIME = "texts of responses stay there for up to an hour, and sessions, without text, for 7 days after their last use"
_SHARED, _VALKEY = Path("shared.postgres"), Path("shared.valkey")


def forget_caller(config: str | None, named: str, *, is_sure: bool, as_json: bool) -> int:
    """Delete a caller's requests, sessions, marks, responses and jobs, from all files and copies."""
    loaded, caller = load_in_use(config), Caller(named)
    name = clean(caller.name, style_here())
    files = _find_files(loaded)
    if not files and loaded.shared_postgres is None and _server_of(loaded) is None:
        raise Ended(1, "there is no ledger yet: nothing is kept")
    try:
        for path in files:
            wait_for_writer(path)
        counted = [*_count(files, caller), *_visit_shared(loaded, caller, deletes=False)]
        found = [kept for kept in counted if kept.total]
        if not found:
            _say_valkey(loaded)
            unasked = {kept.file: kept.problem for kept in counted if kept.problem}
            raise Ended(1, _word_nothing(name, _name_places(loaded, files), unasked))
        _say_found(name, found)
        if not is_sure and not offer("Delete all of it for good?"):
            raise Ended(1, "nothing was deleted\n  hint: --yes deletes without asking")
        done = [kept for path in files for kept in (forget_in_file(path, caller), *forget_in_copies(path, caller))]
        done += _visit_shared(loaded, caller, deletes=True)  # after the files, whose rows are copied there
    except StoreUnusable as error:
        raise Ended(1, str(error)) from error
    if as_json:
        print_json(_as_json(caller, done))
    else:
        _say_done(done)
    _say_rest(name, loaded, files)
    return 1 if any(kept.problem for kept in done) else 0


def _find_files(loaded: LoadedConfig) -> list[Path]:
    jobs = loaded.ledger_path.with_name(JOBS_FILE) if loaded.ledger_path is not None else None
    return [path for path in (loaded.ledger_path, loaded.store_path, jobs) if path is not None and path.is_file()]


def _count(files: list[Path], caller: Caller) -> Iterator[Kept]:
    """Problems with a copy are reported at deletion."""
    for path in files:
        yield count_kept(path, caller)
        for copy in find_copies(path):
            try:
                yield count_kept(copy, caller)
            except StoreUnusable:
                yield Kept(copy, {})


def _name_places(loaded: LoadedConfig, files: list[Path]) -> list[Path]:
    shared = ((_SHARED, loaded.shared_postgres), (_VALKEY, _server_of(loaded)))
    return [*files, *(name for name, terms in shared if terms is not None)]


def _server_of(loaded: LoadedConfig) -> ValkeyTerms | None:
    return loaded.shared.valkey if loaded.shared is not None else None


def _visit_shared(loaded: LoadedConfig, caller: Caller, *, deletes: bool) -> Iterator[Kept]:
    """Count or delete. An unreachable Valkey server does not stop the deletion: its data expires."""
    if loaded.shared_postgres is not None:
        from router.stores.postgres import forget as in_database  # asyncpg, of the extra `shared`

        visit = in_database.forget_caller if deletes else in_database.count_kept
        yield Kept(_SHARED, dict(visit(loaded.shared_postgres, caller)))
    if (terms := _server_of(loaded)) is not None:
        from router.stores.valkey import forget as in_server  # hiredis, of the extra `shared`

        try:
            yield Kept(_VALKEY, dict((in_server.forget_caller if deletes else in_server.count_kept)(terms, caller)))
        except StoreUnusable as error:
            problem = f"nothing was deleted ({error}): {_GONE_IN_TIME}" if deletes else str(error)
            yield Kept(_VALKEY, {}, problem=problem)


def _word_nothing(name: str, places: list[Path], unasked: dict[Path, str]) -> str:
    asked = ", ".join(str(place) for place in places if place not in unasked)
    words = [f'nothing is kept of "{name}" in {asked}'] if asked else []
    words += [f"{place} could not be asked: {reason}" for place, reason in unasked.items()]
    return f"{'; '.join(words)}\n  hint: {command_name()} stats --by caller lists the callers"


def _say_found(name: str, found: list[Kept]) -> None:
    say(f'kept of "{name}":')
    for kept in found:
        say(f"  {kept.file}: {_say_rows(kept)}")


def _say_rows(kept: Kept) -> str:
    counts = (plural(kept.rows.get(kind, 0), word) for kind, word in _WORDS.items() if kept.rows.get(kind))
    return ", ".join(counts) or "nothing"


def _say_done(done: list[Kept]) -> None:
    for kept in done:
        if kept.is_deleted:
            print(f"deleted {kept.file}: a damaged copy, in which nothing could be looked for")
        elif kept.total:
            print(f"deleted from {kept.file}: {_say_rows(kept)}")
    for kept in done:
        if kept.problem:
            say(f"{kept.file}: {kept.problem}")


def _say_rest(name: str, loaded: LoadedConfig, files: list[Path]) -> None:
    owner = next((owner for path in files if (owner := find_owner(path)) is not None), None)
    if owner is not None:
        say(f"the router that runs ({owner}) keeps recent texts in memory for up to an hour, and sessions until it stops")
    if loaded.shared_postgres is not None:
        say("routers on other machines keep their own files: run this command there, too")
    _say_valkey(loaded)
    if loaded.keys is not None and name in loaded.keys.rights:
        say(f"{name} still has a key, and new requests are recorded: {command_name()} keys revoke {name}")
    aside = [str(file) for path in files for file in sorted(path.parent.glob(f"{path.name}.damaged*"))]
    if aside:
        say(f"not looked into: {', '.join(aside)}")


def _say_valkey(loaded: LoadedConfig) -> None:
    """Stored answers do not name their callers."""
    if _server_of(loaded) is not None:
        say("not deleted from shared.valkey: answers to requests with an Idempotency-Key, which are gone after 10 minutes")


def _as_json(caller: Caller, done: list[Kept]) -> JsonObject:
    return {
        "caller": caller.name,
        "files": [
            {"file": str(kept.file), "rows": dict(kept.rows), "file_deleted": kept.is_deleted, "problem": kept.problem or None}
            for kept in done
        ],
    }
