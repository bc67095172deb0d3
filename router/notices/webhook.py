"""Sends messages to one address of the config, in a thread: a receiver that is slow or away holds up nothing else."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence

import orjson
from msgspec import Struct

from router.contract.notices import Trouble
from router.contract.secret import Secret
from router.telemetry import events

_MAX_WAITING = 100
_PAUSES_SECONDS = (1.0, 5.0, 25.0)
"""Before each further try."""
_CLOSE_SECONDS = 1.0
Post = Callable[[str, bytes], int]
"""Sends JSON to an address. Returns the status of the answer. Raises `OSError` where there is none."""
_SUCCESS = range(200, 300)
_SERVER_ERROR = 500
_WORTH_RETRYING = (408, 425, 429)
"""Refusals that may be over soon. After the others, the same message would be refused again."""


class Message(Struct, frozen=True):
    """What the receiver gets, as JSON. Slack and Mattermost show `text`, and ignore the rest."""

    text: str
    kind: Trouble
    subject: str
    state: str
    """`began` or `over`."""
    since: float
    """When the trouble began, in seconds since 1970."""
    hint: str


class Webhook:
    """Takes messages at any time, and sends one after the other. The thread ends when nothing waits."""

    def __init__(self, post: Post | None = None, pauses: Sequence[float] = _PAUSES_SECONDS) -> None:
        self._post, self._pauses = post or _post_json, pauses
        self._address: Secret | None = None
        self._waiting: deque[Message] = deque()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._is_closing = threading.Event()

    def follow(self, address: Secret | None) -> None:
        """Send to another address from now on. Without one, what waits is forgotten."""
        with self._lock:
            self._address = address
            if address is None:
                self._waiting.clear()

    def send(self, message: Message) -> None:
        """Send it as soon as those before it are sent or given up. Of more than a hundred that wait, the oldest is dropped."""
        dropped = None
        with self._lock:
            if self._address is None or self._is_closing.is_set():
                return
            if len(self._waiting) >= _MAX_WAITING:
                dropped = self._waiting.popleft()
            self._waiting.append(message)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="alerts", daemon=True)
                self._thread.start()
        if dropped is not None:
            _report(dropped, "too many messages wait")

    @property
    def waiting(self) -> int:
        """How many messages wait, without the one that is being sent."""
        return len(self._waiting)

    @property
    def is_idle(self) -> bool:
        """Whether everything is sent or given up."""
        return self._thread is None

    async def close(self) -> None:
        """Try once more to send what waits, for at most a second."""
        self._is_closing.set()
        if (thread := self._thread) is not None:
            await asyncio.to_thread(thread.join, _CLOSE_SECONDS)

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            message, address = taken
            if reason := self._try(orjson.dumps(_as_json(message)), address):
                _report(message, reason)

    def _take(self) -> tuple[Message, Secret] | None:
        with self._lock:
            if not self._waiting or self._address is None:
                self._thread = None
                return None
            return self._waiting.popleft(), self._address

    def _try(self, body: bytes, address: Secret) -> str:
        """Send it, with three more tries. Returns why it did not arrive; empty if it did."""
        reason = ""
        for pause in (*self._pauses, None):
            try:
                status = self._post(address.reveal(), body)
            except Exception as error:  # noqa: BLE001  the next message may be sent all the same
                reason = type(getattr(error, "reason", None) or error).__name__
            else:
                if status in _SUCCESS:
                    return ""
                reason = f"status {status}"
                if status < _SERVER_ERROR and status not in _WORTH_RETRYING:
                    break
            if pause is None or self._is_closing.wait(pause):
                break
        return reason


def _as_json(message: Message) -> dict[str, object]:
    return {name: getattr(message, name) for name in Message.__struct_fields__}


def _report(message: Message, reason: str) -> None:
    events.alert_unsent(kind=message.kind, subject=message.subject, state=message.state, reason=reason)


def _post_json(address: str, body: bytes) -> int:
    from router.notices.post import post_json  # loaded with the first message: most routers never send one

    return post_json(address, body)
