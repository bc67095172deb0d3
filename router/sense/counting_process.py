"""The router's end of the token-counting process. Its methods block: call them in a thread."""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from router.sense import counting
from router.sense.counting import ANSWER, READY, UNCOUNTED, write_question

PROGRAM = Path(counting.__file__)
_PASSED_ON = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "SYSTEMROOT")
"""The environment that an interpreter needs, without keys."""


class CountingProcess:
    """A child process that ends with `stop`, or with the router."""

    def __init__(self, program: Path, vocabulary: Path) -> None:
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        # Its own session: Ctrl-C in the router's terminal is not meant for it.
        self._process = subprocess.Popen(  # noqa: S603  our own program
            [sys.executable, "-P", str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**environment, "TIKTOKEN_CACHE_DIR": str(vocabulary)},
            start_new_session=True,
        )
        self.is_ready = False

    def load(self, within_seconds: float) -> None:
        """Raises `OSError` if the process is gone or too slow."""
        if not self.is_ready:
            with self._killed_after(within_seconds):
                self.is_ready = self._read() == READY

    def count(self, parts: Sequence[Iterable[str]], within_seconds: float) -> list[int] | None:
        """Tokens of each part; None if the tokenizer fails. Raises `OSError` if the process is gone or too slow."""
        self.load(within_seconds)
        with self._killed_after(within_seconds):
            self._ask(parts)
            tokens = [self._read() for _ in parts]
        return None if UNCOUNTED in tokens else tokens

    def stop(self) -> None:
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # unwritten data is lost
                    pipe.close()
        self._process.wait()

    @contextlib.contextmanager
    def _killed_after(self, seconds: float) -> Iterator[None]:
        too_late = threading.Timer(seconds, self._process.kill)
        too_late.daemon = True
        too_late.start()
        try:
            yield
        finally:
            too_late.cancel()

    def _ask(self, parts: Iterable[Iterable[str]]) -> None:
        pipe = self._process.stdin
        if pipe is None:
            raise BrokenPipeError
        pipe.write(b"".join(map(write_question, parts)))  # in one piece: each write may wait for the other process
        pipe.flush()

    def _read(self) -> int:
        pipe = self._process.stdout
        raw = pipe.read(ANSWER.size) if pipe is not None else b""
        if len(raw) < ANSWER.size:
            raise BrokenPipeError
        return int(ANSWER.unpack(raw)[0])
