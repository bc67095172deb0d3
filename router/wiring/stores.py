"""Opens the stores that a config asks for. Which ones those are is decided here and nowhere else."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from router.config.load import LoadedConfig
from router.contract.job import JobStore
from router.contract.keys import digest_of
from router.contract.past import SpentCall, TurnWorth
from router.contract.shared import PostgresTerms
from router.contract.spending import Span
from router.contract.stores import EntryStore, ResponseStore, SessionStore, SharedUnusable, StoreUnusable
from router.contract.words import Tier
from router.jobs.jobs import Jobs, keep_in_memory
from router.sessions.ended_jobs import EndedJobs
from router.settle.kept import explain_row
from router.stores.key_file import read_key
from router.stores.memory.entries import MemoryEntries, NoSessions
from router.stores.memory.responses import MemoryResponses
from router.stores.responses import Responses
from router.stores.shared import Shared, say_missing
from router.stores.sqlite.entries import SqliteEntries
from router.stores.sqlite.files import StoreUnwritable, check_place
from router.stores.sqlite.lock import StoreInUse
from router.stores.sqlite.responses import SqliteResponses
from router.stores.sqlite.schemas import JOBS, LEDGER, RESPONSES
from router.stores.sqlite.sessions import SqliteSessions
from router.stores.sqlite.writer import SqliteWriter
from router.telemetry import events

if TYPE_CHECKING:
    from router.stores.sqlite.past import SqliteEntryReader

_T = TypeVar("_T")
JOBS_FILE = "jobs.db"
Files = dict[str, SqliteWriter]
"""Writers by the name of their store: ledger, responses, jobs."""


def open_ledger(loaded: LoadedConfig, address: str, files: Files) -> SqliteWriter | None:
    """The writer of the file that entries and sessions share."""
    path = loaded.ledger_path
    if path is None:
        return None
    files["ledger"] = SqliteWriter(
        path, LEDGER, on_failure=lambda reason, lost: events.ledger_failed(reason=reason, lost=lost), address=address
    )
    return files["ledger"]


def open_sessions(ledger: SqliteWriter | None, shared: Shared | None = None) -> SessionStore:
    """Where sessions are kept: where other routers find them, in the ledger's file, or nowhere but in memory."""
    if shared is not None and shared.sessions is not None:
        return shared.sessions
    return SqliteSessions(ledger) if ledger is not None else NoSessions()


def keep_entries(loaded: LoadedConfig, ledger: SqliteWriter | None) -> EntryStore:
    if ledger is None:
        return MemoryEntries(explain_row)
    kept, shared = loaded.config.ledger, loaded.shared
    return SqliteEntries(
        ledger,
        keep_days=kept.keep_days,
        explain=explain_row,
        fold=_fold,
        replica=shared.replica if shared is not None else None,
        is_forwarded=loaded.shared_postgres is not None,
    )


def _fold(calls: Iterable[SpentCall], marks: Mapping[str, Tier]) -> Iterator[TurnWorth]:
    """Loaded with the first rows: a router without any does not need it."""
    from router.past.worth import fold

    return fold(calls, marks)


def open_responses(
    loaded: LoadedConfig, address: str, files: Files, *, on_disk: bool, shared: Shared | None = None
) -> ResponseStore:
    own, disk, path = MemoryResponses(), None, loaded.store_path
    if on_disk and path is not None:
        files["responses"] = writer = SqliteWriter(
            path, RESPONSES, on_failure=lambda reason, lost: events.store_failed(reason=reason, lost=lost), address=address
        )
        own = MemoryResponses(disk := SqliteResponses(writer))
    return shared.share_responses(own, disk) if shared is not None else Responses(own)


def open_jobs(loaded: LoadedConfig, address: str, ended: EndedJobs, files: Files, *, on_disk: bool) -> Jobs:
    """The store of background work: in a shared database, else next to the ledger, or in memory where no ledger is kept.

    It is opened with the first job, or now where other routers or an earlier one may have left some: then this raises
    `StoreUnusable` if it is damaged. A file that another router uses is left to it.
    """
    keep_seconds, postgres = loaded.config.jobs.keep_hours * 3_600, loaded.shared_postgres
    if postgres is not None:
        (shared := Jobs(partial(_make_on_postgres, postgres, keep_seconds), ended)).open_now()
        return shared
    if not on_disk or loaded.ledger_path is None:
        return Jobs(partial(keep_in_memory, keep_seconds), ended)
    path = loaded.ledger_path.with_name(JOBS_FILE)
    jobs = Jobs(partial(_make_on_disk, path, keep_seconds, address, files), ended)
    if _may_exist(path):
        try:
            jobs.open_now()
        except StoreInUse as error:
            jobs.leave_to(error)
    return jobs


def _may_exist(path: Path) -> bool:
    """Also where nobody can look."""
    try:
        check_place(path)
    except StoreUnwritable:
        return True
    return path.exists()


def _make_on_postgres(terms: PostgresTerms, keep_seconds: float) -> JobStore:
    try:
        from router.stores.postgres.jobs import open_postgres_jobs  # the extra `shared` brings asyncpg
    except ModuleNotFoundError as error:
        raise SharedUnusable(say_missing("shared.postgres needs", error.name)) from error
    try:
        return open_postgres_jobs(
            terms.for_jobs, keep_seconds=keep_seconds, on_failure=lambda reason: events.jobs_failed(reason=reason)
        )
    except SharedUnusable as error:
        raise SharedUnusable(f"shared.postgres: {error}") from error


def _make_on_disk(path: Path, keep_seconds: float, address: str, files: Files) -> JobStore:
    from router.stores.sqlite.jobs import LOCK_SECONDS, LOOK_SECONDS, SqliteJobs

    writer = SqliteWriter(
        path,
        JOBS,
        on_failure=lambda reason, _: events.jobs_failed(reason=reason),
        batch_seconds=LOOK_SECONDS,
        lock_seconds=LOCK_SECONDS,
        address=address,
    )
    files["jobs"] = writer
    return SqliteJobs(writer, keep_seconds=keep_seconds)


def read_spending(ledger: SqliteWriter, span: Span) -> Mapping[str, int]:
    """Raises `StoreUnusable`, also until the file could be opened: what is spent before would be forgotten with a crash."""
    return _read(ledger, lambda reader: reader.read_spending(span))


def read_look_spending(ledger: SqliteWriter, span: Span) -> int:
    """Raises `StoreUnusable`."""
    return _read(ledger, lambda reader: reader.read_look_spending(span))


def _read(ledger: SqliteWriter, read: "Callable[[SqliteEntryReader], _T]") -> _T:
    from router.stores.sqlite.past import SqliteEntryReader  # loaded late: no request needs it

    if not ledger.was_open:
        ledger.check_written()
    try:
        return read(SqliteEntryReader(ledger.path))
    except StoreUnusable as error:  # told to callers, who need not know the folder
        raise StoreUnusable(str(error).replace(str(ledger.path), ledger.path.name)) from error


def name_ledger(path: Path | None) -> str:
    """What tells a ledger from those of other routers: it says nothing of the ledger itself."""
    return digest_of(read_key(path.with_name(f"{path.name}.key")).hex()).hex()[:16] if path is not None else "none"
