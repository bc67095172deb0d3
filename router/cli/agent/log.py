"""The file that an agent logs to, sent to the router piece by piece."""

import codecs
from pathlib import Path

from router.cli.background import Jobs

_PIECE_BYTES = 128 << 10
MOST_BYTES = 2 << 20
"""Of a longer log, this much is sent as it comes, and its last lines at the end."""
_LAST_BYTES = 64 << 10


class AgentLog:
    """Sends what is new in a file. A failed piece is sent again under its number."""

    def __init__(self, jobs: Jobs, job_id: str, owner: str, number: int, path: Path, most_bytes: int = MOST_BYTES) -> None:
        self._jobs, self._job_id, self._owner, self._path, self._most = jobs, job_id, owner, path, most_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._waiting = ""
        self._read_bytes = 0
        self.number = number
        self.is_cancelled = False

    def note(self, line: str) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"tandem: {line}\n")

    def send(self) -> None:
        """Send what is new, and renew the lease. Raises `Refused` and `Unreachable`."""
        while True:
            has_more = self._read()
            told = self._jobs.write_log(self._job_id, self._owner, self.number, self._waiting)
            number = told.get("number")
            self.number = number if isinstance(number, int) else self.number
            self.is_cancelled = told.get("is_cancelled") is True
            self._waiting = ""
            if not has_more:
                return

    def finish(self) -> None:
        """Send the rest, or of a long log its last lines. Raises as `send` does."""
        self.send()
        size = self._path.stat().st_size
        if size > self._read_bytes:
            start = max(self._read_bytes, size - _LAST_BYTES)
            if start > self._read_bytes:
                self._waiting += f"\ntandem: {start - self._read_bytes:,} bytes of the log are left out here\n"
            self._read_bytes, self._most = start, size
            self.send()

    def _read(self) -> bool:
        """Returns whether there is more."""
        end = min(self._path.stat().st_size, self._most)
        if not self._waiting:
            with self._path.open("rb") as file:
                file.seek(self._read_bytes)
                raw = file.read(min(end - self._read_bytes, _PIECE_BYTES))
            self._read_bytes += len(raw)
            self._waiting = self._decoder.decode(raw)
        return end > self._read_bytes
