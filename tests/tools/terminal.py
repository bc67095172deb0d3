"""A terminal emulator, and a program running in it."""

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

_TOKEN = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])|(\r)|(\n)|([^\x00-\x1f\x7f\x80-\x9f])|(.)", re.DOTALL)


class Emulator:
    """What a terminal shows, with what has scrolled out."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.columns, self.rows = columns, rows
        self.lines: list[list[str]] = [[]]
        self.row = self.column = 0

    def feed(self, text: str) -> None:
        for token in _TOKEN.finditer(text):
            _, given, command, is_return, is_newline, letter, _ = token.groups()
            if is_return:
                self.column = 0
            elif is_newline:
                self._down()
            elif letter:
                self._put(letter)
            elif command == "A":
                self.row = max(self.row - int(given or 1), len(self.lines) - self.rows, 0)
            elif command == "K":
                del self._line()[self.column :]
            elif command == "J":
                del self._line()[self.column :]
                del self.lines[self.row + 1 :]

    def text(self) -> list[str]:
        return ["".join(line).rstrip() for line in self.lines]

    def _line(self) -> list[str]:
        return self.lines[self.row]

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append([])

    def _put(self, letter: str) -> None:
        width = 0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        if self.column + width > self.columns:
            self.column = 0
            self._down()
        line = self._line()
        line.extend(" " * (self.column - len(line)))
        line[self.column : self.column + max(width, 1)] = [letter, *[""] * (width - 1)]
        self.column += width


class Terminal:
    def __init__(self, process: subprocess.Popen, master: int, emulator: Emulator) -> None:
        self.process, self.screen, self._master = process, emulator, master
        self._left = b""
        self.frames: list[list[str]] = []
        """The screen after each read."""

    def read(self, seconds: float = 0.05) -> bool:
        """False once the program is over."""
        if not select.select([self._master], [], [], seconds)[0]:
            return True
        try:
            piece = os.read(self._master, 1 << 16)
        except OSError:
            return False
        whole = self._left + piece
        text = whole.decode("utf-8", "ignore")
        self._left = whole[len(text.encode()) :] if len(text.encode()) < len(whole) else b""
        self.screen.feed(text)
        self.frames.append(self.screen.text())
        return bool(piece)

    def wait_for(self, is_there: Callable[[list[str]], bool], seconds: float = 60.0) -> list[str]:
        until = time.monotonic() + seconds
        while not is_there(self.screen.text()):
            assert time.monotonic() < until, "\n".join(self.screen.text())
            self.read()
        return self.screen.text()

    def finish(self, seconds: float = 60.0) -> list[str]:
        until = time.monotonic() + seconds
        while self.read() and time.monotonic() < until:
            if self.process.poll() is not None and not select.select([self._master], [], [], 0.1)[0]:
                break
        return self.screen.text()

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)


def _set_size(descriptor: int, columns: int, rows: int) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C reaches the program as a signal


@contextlib.contextmanager
def run_in_terminal(
    command: list[str], folder: Path, *, columns: int = 80, rows: int = 24, environment: dict[str, str] | None = None
) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    _set_size(slave, columns, rows)
    known = {**os.environ, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **(environment or {})}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=known,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=_take_terminal,
    )
    os.close(slave)
    try:
        yield Terminal(process, master, Emulator(columns, rows))
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(master)
