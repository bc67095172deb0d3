"""The parent of the workers of `tandem serve --workers`, without an event loop or requests of its own.

It owns the listening sockets and gives each worker one. A dead worker is restarted on its socket, so that waiting callers are
served. Questions to all workers go through the parent.
"""

import os
import selectors
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from router.cli import Ended
from router.cli.hangup import has_terminal
from router.cli.workers.messages import (
    EndReport,
    Kind,
    Message,
    Round,
    Rounds,
    Taken,
    Topic,
    read_message,
    write_body,
    write_message,
)
from router.cli.workers.own_valkey import CannotStart, OwnValkey
from router.cli.workers.parent_link import ParentLink
from router.config.changes import keep_fixed
from router.config.faults import ConfigError
from router.config.key_file import check_blank, read_key_file
from router.config.load import LoadedConfig
from router.contract.keys import NewKey
from router.telemetry import events

if TYPE_CHECKING:
    from router.cli.workers.screen_process import ScreenProcess

MAX_DEATHS, WITHIN_SECONDS = 5, 60.0
_LOOK_SECONDS = 2.0
"""How often the terminal and the Valkey server are checked."""
_ALIVE_SECONDS, _MAX_MISSED = 10.0, 6
"""How often workers must answer, and how many misses are fatal. Several: a resumed group is late at first."""
_SEND_SECONDS = 1.0
_READ_BYTES = 1 << 16
_STOPS = (signal.SIGINT, signal.SIGTERM)

Work = Callable[[ParentLink, socket.socket, LoadedConfig], int]
"""Returns the exit code."""


@dataclass(slots=True)
class _Worker:
    number: int
    pid: int
    channel: socket.socket
    received: bytes = b""
    is_serving: bool = False
    missed: int = 0
    """Unanswered questions in a row."""
    is_hung: bool = False
    end_reason: str = ""
    code: int = 0
    """The exit code that it announced; 0 without one."""


@dataclass(slots=True)
class Parent:
    count: int
    listeners: Sequence[socket.socket]
    """One per worker, or one for all."""
    loaded: LoadedConfig
    """The config for new workers: after a reload, fixed settings stay as at the start."""
    load: Callable[[], LoadedConfig]
    """Raises `ConfigError`."""
    work: Work
    own_key: NewKey
    on_ready: Callable[[], None]
    on_reload: Callable[[LoadedConfig], None] = lambda _: None
    valkey: OwnValkey | None = None
    check: Callable[[LoadedConfig], None] = lambda _: None
    """Checks new keys or a new config, as each worker does. Raises `ConfigError`."""
    screen: "ScreenProcess | None" = None
    leave_seconds: float = 15.0
    """A worker's time to end, after the drain time."""
    _workers: dict[int, _Worker] = field(default_factory=dict, init=False)
    _rounds: Rounds = field(default_factory=Rounds, init=False)
    _deaths: deque[float] = field(default_factory=deque, init=False)
    _signals: list[int] = field(default_factory=list, init=False)
    _selector: selectors.BaseSelector = field(default_factory=selectors.PollSelector, init=False)
    _wake: socket.socket = field(init=False)
    _is_ready: bool = field(default=False, init=False)
    _asks_at: float = field(default=0.0, init=False)
    _stop_by: float | None = field(default=None, init=False)
    """When remaining workers are killed; None while serving."""
    _failure: Ended | None = field(default=None, init=False)
    _had_terminal: bool = field(default=False, init=False)

    def run(self) -> int:
        """Raises `Ended` if the workers cannot continue."""
        self._had_terminal = has_terminal()
        self._wake, woken = socket.socketpair()
        for end in (self._wake, woken):
            end.setblocking(False)
        before = {number: signal.signal(number, self._hear) for number in (*_STOPS, signal.SIGCHLD)}
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # respect `nohup`
            before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._hear)
        signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
        self._selector.register(self._wake, selectors.EVENT_READ)
        try:
            for number in range(1, self.count + 1):
                self._start(number)
            while self._workers:
                self._turn()
        finally:
            signal.set_wakeup_fd(-1)
            for number, handler in before.items():
                signal.signal(number, handler)
            self._kill_all()
            for worker in self._workers.values():
                with suppress(ChildProcessError):
                    os.waitpid(worker.pid, 0)
            self._selector.close()
            self._wake.close()
            woken.close()
        if self._failure is not None:
            raise self._failure
        return 0

    def _start(self, number: int) -> None:
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if not pid:
            ours.close()
            self._be_worker(number, theirs)
        theirs.close()
        ours.setblocking(False)
        self._workers[number] = worker = _Worker(number, pid, ours)
        self._selector.register(ours, selectors.EVENT_READ, worker)

    def _be_worker(self, number: int, channel: socket.socket) -> None:
        code = 1
        parent = ParentLink(number, self.count, self.own_key, channel, was_ready=self._is_ready)
        try:
            signal.set_wakeup_fd(-1)
            for ignored in (signal.SIGINT, signal.SIGHUP):  # the parent handles them
                signal.signal(ignored, signal.SIG_IGN)
            for usual in (signal.SIGTERM, signal.SIGCHLD):
                signal.signal(usual, signal.SIG_DFL)
            own = self.listeners[(number - 1) % len(self.listeners)]
            for other in (*(listener for listener in self.listeners if listener is not own), self._wake):
                other.close()
            for worker in self._workers.values():  # or the parent's end would go unnoticed
                worker.channel.close()
            if self.screen is not None:
                self.screen.release()
            code = self.work(parent, own, self.loaded)
        except Ended as end:
            code = end.code
            parent.report_end(end.code, end.text)
        except BaseException as error:  # noqa: BLE001  the last chance to report it
            sys.excepthook(type(error), error, error.__traceback__)
            parent.report_end(1, f"{type(error).__name__}: {error}")
        finally:
            if parent.is_orphaned and self.valkey is not None and sys.platform != "linux":
                with suppress(OSError):
                    os.kill(self.valkey.pid, signal.SIGTERM)
            with suppress(OSError, ValueError):
                sys.stderr.flush()
            os._exit(code)

    def _reap(self) -> None:
        for worker in list(self._workers.values()):
            with suppress(ChildProcessError):
                ended, status = os.waitpid(worker.pid, os.WNOHANG)
                if ended:
                    self._replace(worker, os.waitstatus_to_exitcode(status))

    def _replace(self, worker: _Worker, code: int) -> None:
        self._read(worker)  # its last words
        self._selector.unregister(worker.channel)
        worker.channel.close()
        del self._workers[worker.number]
        if self.screen is not None:
            self.screen.leave(worker.number)
        self._finish(self._rounds.drop(worker.number))
        if self._stop_by is not None:
            return
        reason = worker.end_reason or _say_end(code)
        if worker.code and not self._is_ready:
            self._fail(Ended(worker.code, worker.end_reason))  # the next one would fail likewise
            return
        events.worker_ended(worker=worker.number, pid=worker.pid, reason=reason)
        if not worker.is_hung:  # a hung disk or swap affects all workers at once, and passes
            self._deaths.append(time.monotonic())
        while self._deaths and self._deaths[0] < time.monotonic() - WITHIN_SECONDS:
            self._deaths.popleft()
        if len(self._deaths) > MAX_DEATHS:
            self._fail(Ended(1, f"{len(self._deaths)} workers ended within a minute, the last one: {reason}"))
            return
        self.loaded = self._as_it_is_now()
        self._start(worker.number)
        self._tell_group()

    def _as_it_is_now(self) -> LoadedConfig:
        """The config with the current secrets and key file: revoked keys must not work with a new worker."""
        loaded = self.loaded
        with suppress(ConfigError):  # other workers report it
            loaded = loaded.refresh()
        if loaded.keys is None or (path := loaded.keys_path) is None:
            return loaded
        try:
            taken = replace(loaded, keys=read_key_file(path).ring)
            self._check(taken)
        except ConfigError:
            return loaded  # other workers report it
        return taken

    def _check(self, taken: LoadedConfig) -> None:
        check_blank(self.loaded.keys, taken.keys, str(taken.keys_path))
        self.check(taken)

    def _fail(self, failure: Ended) -> None:
        self._failure = failure
        self._stop()
        self._stop()  # at once: more is not possible

    def _stop(self) -> None:
        """Have all workers finish and end; the second time, end at once."""
        if self._stop_by is None:
            config = self.loaded.config
            seconds = config.server.stop_listening_after_seconds + config.limits.drain_seconds + self.leave_seconds
            self._stop_by = time.monotonic() + seconds
            for listener in self.listeners:  # workers have copies; later callers must be refused
                listener.close()
        else:
            self._stop_by = min(self._stop_by, time.monotonic() + self.leave_seconds)
        for worker in self._workers.values():
            self._send(worker, write_message(Kind.STOP))

    def _kill_all(self) -> None:
        for worker in self._workers.values():
            with suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL)

    def _turn(self) -> None:
        for key, _ in self._selector.select(self._find_pause()):
            if key.data is None:
                with suppress(BlockingIOError):
                    self._wake.recv(_READ_BYTES)
            elif key.data.number in self._workers:
                self._read(key.data)
        heard, self._signals[:] = self._signals[:], []
        for number in heard:
            self._obey(number)
        self._reap()
        for over in self._rounds.take_overdue(time.monotonic()):
            self._note_missed(over)
            self._finish([over])
        self._look()

    def _find_pause(self) -> float:
        moments = [moment for moment in (self._stop_by, self._rounds.next_deadline) if moment is not None]
        return max(0.0, min([_LOOK_SECONDS, *(moment - time.monotonic() for moment in moments)]))

    def _hear(self, number: int, _: object) -> None:
        self._signals.append(number)

    def _obey(self, number: int) -> None:
        if number in _STOPS or (number == signal.SIGHUP and self._is_terminal_closed()):
            self._stop()
        elif number == signal.SIGHUP:
            self._reload(None)

    def _is_terminal_closed(self) -> bool:
        return self._had_terminal and not has_terminal()

    def _look(self) -> None:
        """Check what sends no signal: a closed terminal, an ended Valkey server, a hung worker."""
        if self._stop_by is None:
            if self._is_terminal_closed() and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
                self._stop()
            elif self.valkey is not None and not self.valkey.is_running:
                self._restart_valkey(self.valkey)
            if (now := time.monotonic()) >= self._asks_at:
                self._asks_at = now + _ALIVE_SECONDS
                self._ask_all(Round(0, Topic.ALIVE))
        elif time.monotonic() >= self._stop_by:
            self._kill_all()
            self._stop_by += _LOOK_SECONDS  # waits for their end signals

    def _note_missed(self, asked: Round) -> None:
        """Kill a worker that hangs: its successor serves the waiting callers."""
        for number in asked.waiting if asked.topic is Topic.ALIVE and self._stop_by is None else ():
            worker = self._workers[number]
            worker.missed += 1
            if worker.missed >= _MAX_MISSED:
                worker.is_hung, worker.end_reason = True, "it did not answer for a minute, and was killed"
                os.kill(worker.pid, signal.SIGKILL)

    def _restart_valkey(self, valkey: OwnValkey) -> None:
        """Restart it. Workers serve without it meanwhile; its content is lost."""
        try:
            valkey.start()
            events.valkey_restarted()
        except (CannotStart, OSError) as error:
            events.valkey_failed(reason=str(error))

    def _read(self, worker: _Worker) -> None:
        with suppress(OSError):
            while data := worker.channel.recv(_READ_BYTES):
                worker.received += data
        *lines, worker.received = worker.received.split(b"\n")
        for line in lines:
            with suppress(msgspec.MsgspecError):
                self._take(worker, read_message(line))

    def _take(self, worker: _Worker, message: Message) -> None:
        if message.kind is Kind.READY:
            worker.is_serving = True
            self._tell_group()
            if not self._is_ready and self._count_serving() == self.count:
                self._is_ready = True
                self.on_ready()
        elif message.kind is Kind.ENDED:
            words = msgspec.json.decode(message.body, type=EndReport)
            worker.code, worker.end_reason = words.code, words.text
        elif message.kind is Kind.ANSWER:
            worker.missed = 0
            self._finish(self._rounds.take(worker.number, message))
        elif message.kind is Kind.SEEN:
            if self.screen is not None:
                self.screen.show(worker.number, message.body)
        elif message.topic is Topic.RELOAD:
            self._reload(Round.asked_by(worker.number, message))
        elif message.topic is not None:
            self._ask_all(Round.asked_by(worker.number, message))

    def _count_serving(self) -> int:
        return sum(worker.is_serving for worker in self._workers.values())

    def _tell_group(self) -> None:
        for worker in self._workers.values():
            self._send(worker, write_message(Kind.GROUP, number=self._count_serving()))

    def _reload(self, asked: Round | None) -> None:
        try:
            loaded = keep_fixed(self.loaded, self.load())
            self._check(loaded)
        except ConfigError as error:
            events.config_kept(source=error.source, faults=tuple(map(str, error.faults)))
            if asked is not None:
                asked.answers["0"] = Raw(write_body(Taken.refused(error)))
                self._finish([asked])
            return
        self.loaded = loaded
        self.on_reload(loaded)
        self._ask_all(asked or Round(0, Topic.RELOAD))

    def _ask_all(self, asked: Round) -> None:
        """Ask each worker. One that starts reloads once it listens, and has no figures yet."""
        asking = [worker for worker in self._workers.values() if worker.is_serving or asked.topic is Topic.RELOAD]
        question = self._rounds.begin(asked, {worker.number for worker in asking}, time.monotonic())
        for worker in asking:
            self._send(worker, question)

    def _finish(self, rounds: Sequence[Round]) -> None:
        for asked in rounds:
            if (worker := self._workers.get(asked.asker)) is not None:
                self._send(worker, write_message(Kind.OUTCOME, asked.topic, asked.number, write_body(asked.answers)))

    def _send(self, worker: _Worker, message: bytes) -> None:
        worker.channel.settimeout(_SEND_SECONDS)
        with suppress(OSError):  # ended, which is noticed elsewhere, or hung
            worker.channel.sendall(message)
        worker.channel.setblocking(False)


def _say_end(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"
