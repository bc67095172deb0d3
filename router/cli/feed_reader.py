"""Reads a router's feed in a thread, and reconnects."""

import threading
import urllib.error
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from http.client import HTTPException
from typing import NamedTuple

from router.cli.asking import MAY_PASS, parse_object
from router.contract.request import JsonObject

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 5.0
Open = Callable[[str], AbstractContextManager[Iterable[bytes]]]
"""Opens the feed with a query, and yields lines as they arrive. Raises as `urllib.request.urlopen` does."""
Pause = Callable[[float], bool]
"""Returns True when reading should end."""


class Told(NamedTuple):
    event: str
    """`hello` or `batch` of the feed, or one of those below."""
    data: JsonObject


LOST = "lost"
"""The connection is lost and will be retried: `reason`."""
REFUSED = "refused"
"""The router refuses its feed for good: `status`, or 0 if it never answered."""


class FeedReader:
    """One feed over many connections."""

    def __init__(self, open_feed: Open, tell: Callable[[Told], None]) -> None:
        self._open, self._tell = open_feed, tell
        self._after: str | None = None
        """The last known row; None for new rows only."""
        self._has_heard = False
        self._pause_seconds = _FIRST_PAUSE_SECONDS

    def start(self) -> None:
        threading.Thread(target=self.read, args=(threading.Event().wait,), name="feed", daemon=True).start()

    def read(self, pause: Pause) -> None:
        while (reason := self._read_once()) is not None:
            self._tell(Told(LOST, {"reason": reason}))
            if pause(self._pause_seconds):
                return
            self._pause_seconds = min(self._pause_seconds * 2, _LONGEST_PAUSE_SECONDS)

    def _read_once(self) -> str | None:
        """Why the connection ended; None if a retry is useless."""
        try:
            with self._open(f"?after={self._after}" if self._after is not None else "") as lines:
                for event, number, data in read_events(lines):
                    self._has_heard, self._pause_seconds = True, _FIRST_PAUSE_SECONDS
                    self._after = number or self._after
                    self._tell(Told(event, data))
            return "the connection was closed"
        except urllib.error.HTTPError as error:
            with error:
                if self._has_heard and error.code in MAY_PASS:
                    return f"status {error.code}"
            self._tell(Told(REFUSED, {"status": error.code}))
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            if isinstance(reason, ConnectionRefusedError) and self._after is not None:
                self._after = "0"  # restarted routers count rows from the beginning
            if self._has_heard:
                return str(reason) or type(reason).__name__
            self._tell(Told(REFUSED, {"status": 0, "reason": str(reason)}))
        return None


def read_events(lines: Iterable[bytes]) -> Iterator[tuple[str, str, JsonObject]]:
    """Name, id and data of each event that holds a JSON object."""
    event, number, data = "", "", b""
    for raw in lines:
        line = raw.rstrip(b"\r\n")
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data += value
        elif field == b"event":
            event = value.decode("utf-8", "replace")
        elif field == b"id":
            number = value.decode("ascii", "replace")
        elif not line:
            body = parse_object(data)
            if body is not None:
                yield event, number, body
            event, number, data = "", "", b""
