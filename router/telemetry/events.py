"""One function for each fact that is logged. Names are `noun.verb_in_past`; no text of a prompt or answer, ever."""

import sys
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, ClassVar

import msgspec
import orjson
import structlog

from router.contract.entry import Line
from router.telemetry.sentences import say_event

Note = Callable[[str, str], None]
"""Takes the sentence of an event and its level."""


class _LineWriter:
    """Writes lines to standard error, one system call each. A closed pipe must not fail a request."""

    waiting: ClassVar[list[bytes] | None] = None
    """Lines to be written together, from all writers."""

    def __init__(self, *_: object) -> None:
        self._file = sys.stderr.buffer

    def msg(self, line: bytes) -> None:
        if self.waiting is not None:
            self.waiting.append(line)
            return
        try:
            self._file.write(line + b"\n")
            self._file.flush()
        except (OSError, ValueError):
            pass

    debug = info = warning = error = msg


class _NoteTaker:
    """Gives events to a person's terminal."""

    def __init__(self, note: Note) -> None:
        self._note = note

    def msg(self, said: str, level: str) -> None:
        self._note(said, level)

    debug = info = warning = error = msg


_SETTLED = b'{"event":"request.settled","level":"info","timestamp":"%b",%b'
_encode = msgspec.json.Encoder().encode
_log: Any = structlog.get_logger()
_writer = _LineWriter()
_at = b""
"""The timestamp of lines that are written together; empty while each line has its own."""
_is_noted = False
"""Whether events are for a person, as sentences."""
_refused: Callable[[int, str], None] | None = None
_EXPECTED = ("upgrade_required",)
"""Refusals that clients expect: Codex tries a WebSocket first. They are logged as JSON, and not shown to people."""


def set_up_logging(note: Note | None = None, refused: Callable[[int, str], None] | None = None) -> None:
    """JSON lines for programs; with `note`, sentences for a person, who sees requests as turns.

    `refused` gets the status and message of a request that was rejected before admission.
    """
    global _is_noted, _writer, _refused
    _is_noted, _writer, _refused = note is not None, _LineWriter(), refused
    processors: list[Any] = [structlog.processors.add_log_level]
    if note is None:
        processors += [structlog.processors.TimeStamper(fmt="iso", utc=True), _to_json]
    else:
        processors.append(_to_note)
    structlog.configure(
        processors=processors,
        logger_factory=_LineWriter if note is None else lambda *_: _NoteTaker(note),
        cache_logger_on_first_use=False,
    )


def _to_json(_: Any, __: str, event: MutableMapping[str, Any]) -> bytes:
    return orjson.dumps(dict(event), default=str)


def _to_note(_: Any, level: str, event: MutableMapping[str, Any]) -> tuple[tuple[str, str], dict[str, Any]]:
    return (_say(event), level), {}


def _say(event: MutableMapping[str, Any]) -> str:
    said = str(event["line"]) if "line" in event else say_event(event["event"], event)
    if not said:
        raise structlog.DropEvent
    return said


@contextmanager
def together() -> Iterator[None]:
    """Write all lines of a block in one system call. Those of requests share one timestamp."""
    global _at
    lines: list[bytes] = []
    _LineWriter.waiting, _at = lines, _write_time()
    try:
        yield
    finally:
        _LineWriter.waiting, _at = None, b""
        if lines:
            _LineWriter().msg(b"\n".join(lines))


def server_started(*, url: str, config: str, targets: int, simulated: bool, took_ms: float) -> None:
    """The router is listening."""
    took = round(took_ms, 1)
    _log.info("server.started", url=url, config=config, targets=targets, simulated=simulated, took_ms=took)


def server_stopping(*, running: int, sockets: int, listens_seconds: float, drain_seconds: float) -> None:
    """The router finishes what runs."""
    _log.info("server.stopping", running=running, sockets=sockets, listens_seconds=listens_seconds, drain_seconds=drain_seconds)


def server_stopped() -> None:
    """The router has stopped."""
    _log.info("server.stopped")


def config_warned(*, warning: str) -> None:
    """The config needs attention."""
    _log.warning("config.warned", warning=warning)


def policy_switched_off(*, policy: str, source: str, why: str) -> None:
    """Your policy failed: off until a reload."""
    _log.warning("policy.switched_off", policy=policy, source=source, why=why)


def config_reloaded(*, changed: Sequence[str], needs_restart: Sequence[str], before: str, fingerprint: str) -> None:
    """The config was reloaded: `changed`, `needs_restart`."""
    waits = list(needs_restart)
    _log.info("config.reloaded", changed=list(changed), needs_restart=waits, before=before, fingerprint=fingerprint)


def config_kept(*, source: str, faults: Sequence[str]) -> None:
    """The changed config has faults: the old one stays."""
    _log.error("config.kept", config=source, faults=list(faults))


def secrets_reloaded(*, changed: Sequence[str]) -> None:
    """A changed `.env` or `server.tls` certificate is in use."""
    _log.info("secrets.reloaded", changed=list(changed))


def keys_reloaded(*, changed: Sequence[str], callers: int, keys: int) -> None:
    """The changed key file is in use."""
    _log.info("keys.reloaded", changed=list(changed), callers=callers, keys=keys)


def keys_kept(*, faults: Sequence[str]) -> None:
    """The changed key file has faults: the old keys stay."""
    _log.error("keys.kept", faults=list(faults))


def key_revoked(*, key: str | None, waiting_jobs: int = 0, running_jobs: int = 0, sockets: int = 0, feeds: int = 0) -> None:
    """Work of a revoked or expired key was ended."""
    _log.info("key.revoked", key=key, waiting_jobs=waiting_jobs, running_jobs=running_jobs, sockets=sockets, feeds=feeds)


def keys_lost(*, after_seconds: float) -> None:
    """The key file has been missing for ten minutes: its keys stop working."""
    _log.error("keys.lost", after_seconds=round(after_seconds))


def request_settled(line: Line) -> None:
    """An admitted request has ended."""
    if _is_noted:
        return
    # The one event that every request pays for is written in one go, without structlog's processors: 2 µs instead of 12.
    _writer.msg(_SETTLED % (_at or _write_time(), _encode(line)[1:]))


def _write_time() -> bytes:
    return datetime.now(UTC).isoformat().encode()


def request_rejected(*, status: int, code: str, message: str = "") -> None:
    """A request was rejected before admission."""
    if not _is_noted:
        _log.info("request.rejected", status=status, code=code)
    elif code in _EXPECTED:
        return
    elif _refused is not None:
        _refused(status, _printable(message) or code.replace("_", " "))
    else:
        _log.info("request.rejected", line=f"{status} rejected  {_printable(message) or code.replace('_', ' ')}")


def key_refused(*, key: str | None, reason: str) -> None:
    """A key was refused: its id, and the `reason`."""
    _log.warning("key.refused", **({"key": key} if key is not None else {}), reason=reason)


def page_file_missing(*, name: str) -> None:
    """The dashboard lacks a file."""
    _log.warning("page.file_missing", name=_printable(name[:100]))


def _printable(text: str) -> str:
    """Replace control characters in text that a caller may have sent."""
    return "".join([letter if letter.isprintable() else "?" for letter in text])


def connections_refused(*, address: str, limit: int, refused: int) -> None:
    """An address reached `limits.max_connections_per_address`."""
    _log.warning("connections.refused", address=address, limit=limit, refused=refused)


def accept_paused(*, connections: int, handles: int) -> None:
    """Too few file handles: raise `ulimit -n` or `LimitNOFILE=`."""
    _log.warning("accept.paused", connections=connections, handles=handles)


def memory_exceeded(*, used_mb: int, limit_mb: int) -> None:
    """Over `limits.max_memory_mb`: new calls get 503."""
    _log.warning("memory.exceeded", used_mb=used_mb, limit_mb=limit_mb)


def memory_recovered(*, used_mb: int, limit_mb: int) -> None:
    """Calls are accepted again."""
    _log.info("memory.recovered", used_mb=used_mb, limit_mb=limit_mb)


def policy_skipped(*, policy: str, reason: str) -> None:
    """A policy failed and was skipped."""
    _log.warning("policy.skipped", policy=policy, reason=reason)


def target_misconfigured(*, target: str, code: str, fault: str, words: str) -> None:
    """A target's key, credit, region or model is wrong (`fault`)."""
    _log.error("target.misconfigured", target=target, code=code, fault=fault, words=words)


def window_learned(*, target: str, tokens: int, configured: int) -> None:
    """A target reported its window: set `window_tokens`."""
    _log.warning("window.learned", target=target, tokens=tokens, configured=configured)


def queue_formed(*, target: str, seconds: float) -> None:
    """Requests wait for a target's quota."""
    _log.info("queue.formed", target=target, seconds=seconds)


def caller_limited(*, caller: str, limit: str, seconds: float) -> None:
    """A caller reached a limit, for `seconds`."""
    _log.info("caller.limited", caller=caller, limit=limit, seconds=seconds)


def socket_refused(*, target: str, reason: str, seconds: float) -> None:
    """A target's WebSockets failed: HTTP for `seconds`."""
    _log.warning("socket.refused", target=target, reason=reason, seconds=seconds)


def tokens_uncounted(*, reason: str) -> None:
    """Exact token counts are not available."""
    _log.warning("tokens.uncounted", reason=reason)


def ledger_failed(*, reason: str, lost: int) -> None:
    """Entries could not be written: `DiskFull`, `LogGone` (`-wal` or `-shm` deleted), `Damaged` or another `reason`."""
    _log.error("ledger.failed", reason=reason, lost=lost)


def ledger_uncopied(*, reason: str, rows: int) -> None:
    """Rows that `shared.postgres` never gets: `too old`, `refused`."""
    _log.error("ledger.uncopied", reason=reason, rows=rows)


def store_failed(*, reason: str, lost: int) -> None:
    """A response stays in memory: its file failed."""
    _log.error("store.failed", reason=reason, lost=lost)


def responses_lost(*, count: int) -> None:
    """Responses could not be stored in the shared database."""
    _log.error("responses.lost", count=count)


def store_lost(*, store: str, reason: str) -> None:
    """A shared store is unavailable."""
    _log.error("store.lost", store=store, reason=reason)


def store_back(*, store: str, seconds: float) -> None:
    """A shared store is available again."""
    _log.info("store.back", store=store, seconds=seconds)


def store_refused(*, store: str, reason: str, count: int) -> None:
    """A shared store refused a command (`OOM`: full memory)."""
    _log.error("store.refused", store=store, reason=reason, count=count)


def pulse_ignored(*, reason: str, count: int) -> None:
    """Ignored messages between routers, by reason."""
    _log.warning("pulse.ignored", reason=reason, count=count)


def clock_differs(*, store: str, seconds: float) -> None:
    """A shared store's clock is `seconds` ahead; negative: behind."""
    _log.warning("clock.differs", store=store, seconds=seconds)


def value_unreadable(*, store: str, kind: str) -> None:
    """A shared store's key holds something else: use another `prefix`."""
    _log.warning("store.value_unreadable", store=store, kind=kind)


def jobs_failed(*, reason: str) -> None:
    """Background jobs could not be written; new ones are refused."""
    _log.error("jobs.failed", reason=reason)


def job_accepted(*, job: str, tier: str, session: str | None) -> None:
    """A background request was stored."""
    _log.info("job.accepted", job=job, tier=tier, session=session)


def job_started(*, job: str, attempt: int) -> None:
    """A background job is served."""
    _log.info("job.started", job=job, attempt=attempt)


def job_ended(*, job: str, state: str) -> None:
    """A background job is over."""
    _log.info("job.ended", job=job, state=state)


def store_migrating(*, file: str, before: int, version: int, megabytes: int) -> None:
    """A large older file is being migrated."""
    _log.info("store.migrating", file=file, before=before, version=version, megabytes=megabytes)


def store_migrated(*, file: str, before: int, version: int, copy: str) -> None:
    """An older file was migrated, and kept as `copy`."""
    _log.info("store.migrated", file=file, before=before, version=version, copy=copy)


def rows_deleted(*, file: str, table: str, rows: int, kept_days: int) -> None:
    """Rows older than `kept_days` were deleted."""
    _log.info("store.rows_deleted", file=file, table=table, rows=rows, kept_days=kept_days)


def store_compacted(*, file: str, megabytes: int) -> None:
    """Free room of a file was given back."""
    _log.info("store.compacted", file=file, megabytes=megabytes)


def store_clock_leapt(*, file: str, days: int) -> None:
    """The clock leapt by over a week: nothing is deleted by it yet."""
    _log.warning("store.clock_leapt", file=file, days=days)


def clock_leapt(*, seconds: float) -> None:
    """The time leapt: for a day, nothing expires by it."""
    _log.warning("clock.leapt", seconds=round(seconds, 1))


def budget_near(*, caller: str, period: str, spent_usd: float, limit_usd: float) -> None:
    """A caller has reached `budgets.warn_at`."""
    _log.warning("budget.near", caller=caller, period=period, spent_usd=spent_usd, limit_usd=limit_usd)


def budget_spent(*, caller: str, period: str, spent_usd: float, limit_usd: float) -> None:
    """A request was refused for its budget."""
    _log.warning("budget.spent", caller=caller, period=period, spent_usd=spent_usd, limit_usd=limit_usd)


def alert_unsent(*, kind: str, subject: str, state: str, reason: str) -> None:
    """A message did not reach `alerts.webhook`."""
    _log.warning("alert.unsent", kind=kind, subject=subject, state=state, reason=reason)


def webhook_given_up(*, event_id: str, job: str, kind: str, tries: int, reason: str) -> None:
    """A webhook could not be delivered."""
    _log.warning("webhook.given_up", event_id=event_id, job=job, kind=kind, tries=tries, reason=reason)


def traces_lost(*, reason: str, lost: int) -> None:
    """The traces of `lost` requests were not sent."""
    _log.warning("traces.lost", reason=reason, lost=lost)


def bridge_failed(*, target: str, error: Exception) -> None:
    """An answer could not be translated."""
    _log.error("bridge.failed", target=target, kind=type(error).__name__, where=place_of(error))


def place_of(error: Exception) -> str:
    """The innermost line of code that raised an error, without any value."""
    place, trace = "", error.__traceback__
    while trace is not None:
        place = f"{trace.tb_frame.f_code.co_name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def task_failed(*, task: str, error: Exception, again_in_seconds: float) -> None:
    """A bug ended a task, which is restarted."""
    kind, where = type(error).__name__, place_of(error)
    _log.error("task.failed", task=task, kind=kind, where=where, again_in_seconds=again_in_seconds)


def loop_stalled(*, seconds: float, step: str, where: str, stalls: int) -> None:
    """The event loop was held up by `step` at `where`."""
    _log.warning("loop.stalled", seconds=round(seconds, 3), step=step, where=where, stalls=stalls)


def fault_caught(*, request_id: str, kind: str, where: str) -> None:
    """A bug in Tandem, at `where`."""
    _log.error("fault.caught", request_id=request_id, kind=kind, where=where)
