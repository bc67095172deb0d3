"""Sends word of jobs that are over to the addresses of the config. What is to be sent is in the outbox of the job store.

An event is in the outbox from the transaction on that ends its job, and leaves it when its receiver has taken it. Each try
has the same id, so a receiver can tell one that it was sent before. Each address is sent to by itself: one that is slow or
away delays nobody else's events. Events have OpenAI's shape and are signed as Standard Webhooks says, so that OpenAI's
`client.webhooks.unwrap` takes them. Why not with the package `standardwebhooks`: `docs/decisions/0067-webhooks.md`.
"""

import asyncio
import base64
import hashlib
import hmac
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

import orjson

from router.contract.clock import CLOCK
from router.contract.job import JobState, JobStore, WebhookEvent
from router.contract.stores import StoreUnusable
from router.contract.webhooks import JobEvent, JobWebhook
from router.loop.daemons import start_daemon
from router.telemetry import events

Post = Callable[[str, bytes, Mapping[str, str], bool], int]
"""Sends JSON to an address, with headers, and to a private one only where that is allowed. Returns the status of the answer.

Raises `OSError` where there is none in time. It is called in a thread.
"""
LOOK_SECONDS = 30.0
"""How often the outbox is looked at when no job of this process ends: others may share it."""
GIVE_UP_SECONDS = 72 * 3_600.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 60.0, 12 * 3_600.0
_TAKEN, _AT_ONCE = 16, 2
"""Events that are taken from the outbox together, and that are sent to one address at the same time."""
_HOLD_SECONDS = 120.0
"""Longer than sending all of these to one address can take: `post_json` ends a try after ten seconds."""
_AWAY_SECONDS = 30.0
"""How long a receiver that did not answer is left alone."""
_SUCCESS = range(200, 300)
_ENCODED = "whsec_"
_GONE = "status 410"
"""The receiver says that it wants no more of this."""


class Webhooks:
    """Sends what is due, as long as the config names an address. Without one, nothing runs and nothing is noted."""

    def __init__(self, store: JobStore, post: Post | None = None, clock: Callable[[], float] | None = None) -> None:
        self._store, self._post = store, post or _post_json
        self._clock, self._expires_by = clock or time.time, clock or CLOCK.trusted
        self._hooks: dict[str, JobWebhook] = {}
        self._busy: set[str] = set()
        """The addresses that are being sent to."""
        self._away_until: dict[str, float] = {}
        self._is_wanted, self._has_news = asyncio.Event(), asyncio.Event()

    def follow(self, hooks: Sequence[JobWebhook]) -> None:
        """Send to these addresses from now on. What waits for another address is given up when it is due."""
        self._hooks = {hook.url: hook for hook in hooks}
        self._away_until = {url: until for url, until in self._away_until.items() if url in self._hooks}
        (self._is_wanted.set if hooks else self._is_wanted.clear)()

    def addresses_for(self, state: JobState) -> tuple[str, ...]:
        """Who is to be sent that a job ended so: `JobStore.finish` notes it for each."""
        if not self._hooks:
            return ()
        event = JobEvent(f"response.{state}")
        return tuple(hook.url for hook in self._hooks.values() if event in hook.events)

    def send_soon(self) -> None:
        """Look for events that are due: a job has ended."""
        self._has_news.set()

    async def run(self) -> None:
        """Send what is due when a job ends, and now and then, as long as there is an address."""
        while True:
            await self._is_wanted.wait()
            await self.send_due()
            await self._wait_for_news()

    async def send_due(self) -> None:
        """Send everything that is due, also what becomes due while the slowest receiver is being sent to."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._has_news.clear()
                due = await self._take_due()
                for address in {event.address for event in due}:
                    self._busy.add(address)
                    group.create_task(self._send_to(address, [event for event in due if event.address == address]))
                if not due and not self._busy:
                    return
                if not due:
                    await self._wait_for_news()

    async def _wait_for_news(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await self._has_news.wait()

    async def _take_due(self) -> Sequence[WebhookEvent]:
        """What can be sent now. A store that cannot be used is asked again at the next look."""
        try:
            return await self._store.take_due(self._clock(), _HOLD_SECONDS, _TAKEN, tuple(self._busy))
        except StoreUnusable:
            return ()

    async def _send_to(self, address: str, due: Sequence[WebhookEvent]) -> None:
        """Send events to one address. More are taken for it when these are done."""
        sending = asyncio.Semaphore(_AT_ONCE)
        try:
            async with asyncio.TaskGroup() as group:
                for event in due:
                    group.create_task(self._send(event, sending))
        finally:
            self._busy.discard(address)
            self._has_news.set()

    async def _send(self, event: WebhookEvent, sending: asyncio.Semaphore) -> None:
        """Send one event. What cannot be noted now is sent once more, with the same id, when it is no longer held."""
        with suppress(StoreUnusable):
            hook = self._hooks.get(event.address)
            if hook is None:
                await self._give_up(event, "its address is no longer in the config")
                return
            async with sending:
                reason = await self._try(event, hook)
            now = self._clock()
            if not reason:
                await self._store.note_delivered(event.id)
            elif reason == _GONE or self._expires_by() >= event.at + GIVE_UP_SECONDS:
                await self._give_up(event, reason)
            else:
                await self._store.note_undelivered(event.id, next_try(event, now))

    async def _try(self, event: WebhookEvent, hook: JobWebhook) -> str:
        """Post it. Returns why it did not arrive; empty if it did. A receiver that does not answer is left alone for a bit."""
        if self._clock() < self._away_until.get(hook.url, 0.0):
            return "away"
        body = write_event(event)
        headers = sign(event.id, body, [secret.reveal() for secret in hook.secret], self._clock())
        posting = start_daemon("webhook", self._post, hook.url, body, headers, hook.allow_private)
        try:
            status = await asyncio.wrap_future(posting)
        except (OSError, ValueError) as error:  # a name with a label that is too long is a ValueError
            self._away_until[hook.url] = self._clock() + _AWAY_SECONDS
            return type(getattr(error, "reason", None) or error).__name__
        return "" if status in _SUCCESS else f"status {status}"

    async def _give_up(self, event: WebhookEvent, reason: str) -> None:
        await self._store.note_undelivered(event.id, None)
        events.webhook_given_up(event_id=event.id, job=event.job_id, kind=event.event, tries=event.tries + 1, reason=reason)


def next_try(event: WebhookEvent, now: float) -> float:
    """When an event that has not arrived is sent again: in a minute, then after twice as long each time, at 72 hours last."""
    pause = min(_FIRST_PAUSE_SECONDS * 2.0 ** min(event.tries, 20), _LONGEST_PAUSE_SECONDS)
    last = event.at + GIVE_UP_SECONDS
    return last if now < last < now + pause else now + pause


def write_event(event: WebhookEvent) -> bytes:
    """The body. It names the response alone: what is in it is fetched with a key."""
    return orjson.dumps(
        {
            "id": event.id,
            "object": "event",
            "created_at": int(event.at),
            "type": event.event,
            "data": {"id": event.job_id},
        }
    )


def sign(event_id: str, body: bytes, secrets: Iterable[str], now: float) -> dict[str, str]:
    """The headers that prove who sent a body, and when. Receivers refuse old ones, so each try is signed with its own time.

    Of several signatures, receivers need to know one: a secret can be changed without a gap.
    """
    timestamp = str(int(now))
    signed = b"%b.%b.%b" % (event_id.encode(), timestamp.encode(), body)
    digests = (hmac.digest(_read_key(secret), signed, hashlib.sha256) for secret in secrets)
    return {
        "webhook-id": event_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests),
    }


def _read_key(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(_ENCODED)) if secret.startswith(_ENCODED) else secret.encode()


def _post_json(address: str, body: bytes, headers: Mapping[str, str], allow_private: bool) -> int:
    from router.notices.post import post_json  # loaded with the first event: most routers never send one

    return post_json(address, body, headers, allow_private=allow_private)
