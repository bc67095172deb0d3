"""Events reach their receivers once, however long these are away, and nobody else."""

import functools
import json
import threading
import time

import openai
import pytest

from router.contract.clock import Clock as ProcessClock
from router.contract.job import JobObserver, JobState, WebhookEvent
from router.contract.secret import Secret
from router.contract.stores import StoreUnusable
from router.contract.webhooks import JobEvent, JobWebhook
from router.jobs.webhooks import GIVE_UP_SECONDS, Webhooks, sign, write_event
from router.loop.tasks import spawn
from router.stores.sqlite.jobs import MemoryJobs
from router.telemetry import events
from tests.tools.jobs import LEASE_SECONDS, MANY, Clock, make_ending, make_job
from tests.tools.waiting import until

URL, OTHER = "https://hooks.example/one", "https://hooks.example/two"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
EVENT = WebhookEvent("evt_1", "resp_ab12", "https://example.com/hook", "response.completed", 1_700_000_000.7)


class Receiver:
    """Takes events, or is away; keeps what was sent to it."""

    def __init__(self) -> None:
        self.statuses: dict[str, int | OSError] = {}
        self.slow: dict[str, threading.Event] = {}
        self.seen: list[tuple[str, bytes, dict, bool]] = []
        self.daemons: list[bool] = []

    def count(self, address) -> int:
        return [seen for seen, *_ in self.seen].count(address)

    def __call__(self, address, body, headers, allow_private):
        self.seen.append((address, body, dict(headers), allow_private))
        self.daemons.append(threading.current_thread().daemon)
        if address in self.slow:
            self.slow[address].wait(30)
        answer = self.statuses.get(address, 200)
        if isinstance(answer, OSError):
            raise answer
        return answer


class Naming(JobObserver):
    """Names the addresses of the webhooks for each end."""

    def __init__(self, webhooks: Webhooks) -> None:
        self._webhooks = webhooks

    def addresses_for(self, state: JobState) -> tuple[str, ...]:
        return self._webhooks.addresses_for(state)


class Rig:
    def __init__(self, *hooks: JobWebhook) -> None:
        self.clock = Clock(time.time() - 600)  # ten minutes before the SDK's own clock
        self.store = MemoryJobs(keep_seconds=7 * 86_400.0, clock=self.clock)
        self.receiver = Receiver()
        self.webhooks = Webhooks(self.store, self.receiver, self.clock)
        self.webhooks.follow(hooks or [make_hook()])
        self.store.observe(Naming(self.webhooks))

    async def end(self, name="resp_1", state=JobState.COMPLETED) -> bool:
        """Run a job to its end."""
        await self.store.add(make_job(name), MANY)
        job = await self.store.claim("owner", LEASE_SECONDS, MANY)
        return await self.finish(job, state)

    async def finish(self, job, state=JobState.COMPLETED) -> bool:
        return await self.store.finish(job, make_ending(state, self.clock.now))

    async def pass_time(self, seconds: float, step: float = 30.0) -> None:
        """Let time pass, with a look every half minute."""
        until_then = self.clock.now + seconds
        while self.clock.now < until_then:
            self.clock.now = min(until_then, self.clock.now + step)
            await self.webhooks.send_due()


async def test_a_leap_of_the_clock_gives_no_event_up_and_what_it_put_off_is_sent_at_its_own_time(monkeypatch):
    rig, uptime = Rig(), Clock()
    process = ProcessClock(rig.clock, uptime)
    monkeypatch.setattr("router.jobs.webhooks.time.time", rig.clock)
    monkeypatch.setattr("router.jobs.webhooks.CLOCK", process)
    rig.webhooks = Webhooks(rig.store, rig.receiver)
    rig.webhooks.follow([make_hook()])
    rig.receiver.statuses[URL] = 500
    await rig.end()

    rig.clock.now += 40 * 86_400.0
    await rig.webhooks.send_due()
    assert rig.receiver.count(URL) == 1
    rig.receiver.statuses[URL] = 200
    await rig.pass_time(120)

    assert rig.receiver.count(URL) == 2
    await rig.store.close()


@pytest.fixture
async def rig():
    rig = Rig()
    yield rig
    await rig.store.close()


def make_hook(url=URL, events=frozenset(JobEvent), allow_private=False):
    return JobWebhook(url, (Secret(SECRET),), events, allow_private)


@functools.cache
def sdk():
    return openai.OpenAI(api_key="-", webhook_secret=SECRET)


def unwrap(body, headers):
    return sdk().webhooks.unwrap(body, headers)


async def test_a_receiver_that_was_away_for_ten_minutes_gets_the_event_once_and_the_sdk_takes_it(rig):
    rig.receiver.statuses[URL] = ConnectionRefusedError()
    await rig.end()
    await rig.pass_time(600)
    tries = len(rig.receiver.seen)
    del rig.receiver.statuses[URL]

    await rig.pass_time(3_600 * 24)

    delivered = rig.receiver.seen[tries:]
    assert tries == 4  # at once, and after 1, 2 and 4 minutes more
    assert len(delivered) == 1
    assert len({headers["webhook-id"] for _, _, headers, _ in rig.receiver.seen}) == 1


async def test_each_try_is_signed_with_its_own_time_so_that_the_sdk_takes_a_late_one(rig):
    rig.receiver.statuses[URL] = 503
    await rig.end()
    await rig.pass_time(420)
    rig.receiver.statuses[URL] = 200
    await rig.pass_time(180)
    rig.clock.now = time.time()
    await rig.pass_time(480)

    (_, first, early, _), *_, (_, body, headers, _) = rig.receiver.seen
    with pytest.raises(openai.InvalidWebhookSignatureError, match="too old"):
        unwrap(first, early)
    event = unwrap(body, headers)
    assert (event.type, event.data.id, event.id) == ("response.completed", "resp_1", headers["webhook-id"])


async def test_an_event_is_given_up_after_72_hours_and_shown_as_dead(rig, capsys):
    events.set_up_logging()
    rig.receiver.statuses[URL] = TimeoutError()
    await rig.end()

    await rig.pass_time(GIVE_UP_SECONDS - 3_600, step=600)
    assert not await rig.store.list_dead()
    await rig.pass_time(7_200, step=600)

    (dead,) = await rig.store.list_dead()
    assert (dead.job_id, dead.address, dead.event) == ("resp_1", URL, "response.completed")
    lines = map(json.loads, capsys.readouterr().err.splitlines())
    (line,) = [line for line in lines if line["event"] == "webhook.given_up"]
    assert (line["job"], line["reason"]) == ("resp_1", "TimeoutError")
    assert URL not in str(line)
    tries = len(rig.receiver.seen)
    await rig.pass_time(86_400, step=3_600)
    assert len(rig.receiver.seen) == tries


async def test_a_receiver_that_is_gone_is_not_asked_again(rig):
    rig.receiver.statuses[URL] = 410
    await rig.end()

    await rig.pass_time(600)

    assert len(rig.receiver.seen) == len(await rig.store.list_dead()) == 1


@pytest.mark.parametrize("status", [301, 307, 400, 404, 429, 500])
async def test_any_other_answer_than_success_is_tried_again(rig, status):
    rig.receiver.statuses[URL] = status
    await rig.end()

    await rig.pass_time(120)

    assert len(rig.receiver.seen) == 2
    assert not await rig.store.list_dead()


async def test_only_the_events_that_an_address_asks_for_are_sent_to_it():
    rig = Rig(make_hook(), make_hook(OTHER, frozenset({JobEvent.FAILED}), allow_private=True))

    await rig.end("resp_1", JobState.COMPLETED)
    await rig.end("resp_2", JobState.FAILED)
    await rig.webhooks.send_due()

    sent = [(address, unwrap_type(body), allowed) for address, body, _, allowed in rig.receiver.seen]
    assert sorted(sent) == [
        (URL, "response.completed", False),
        (URL, "response.failed", False),
        (OTHER, "response.failed", True),
    ]
    await rig.store.close()


def unwrap_type(body):
    return json.loads(body)["type"]


async def test_an_address_that_left_the_config_is_sent_nothing(rig):
    await rig.end()
    rig.webhooks.follow([make_hook(OTHER)])

    await rig.webhooks.send_due()

    assert rig.receiver.seen == []
    assert [event.address for event in await rig.store.list_dead()] == [URL]


async def test_a_receiver_that_does_not_answer_is_asked_once_in_a_look_and_another_gets_its_own():
    rig = Rig(make_hook(), make_hook(OTHER))
    rig.receiver.statuses[URL] = TimeoutError()
    for number in range(20):
        await rig.end(f"resp_{number}")

    await rig.webhooks.send_due()

    addresses = [address for address, *_ in rig.receiver.seen]
    assert addresses.count(OTHER) == 20
    assert addresses.count(URL) <= 2  # two are sent at the same time
    await rig.store.close()


async def test_a_receiver_that_takes_its_time_delays_nobody_else(rig):
    rig.webhooks.follow([make_hook(), make_hook(OTHER)])
    may_answer = rig.receiver.slow[URL] = threading.Event()
    running = spawn(rig.webhooks.run(), name="webhooks")
    try:
        for number in range(40):
            await rig.end(f"resp_{number}")
        rig.webhooks.send_soon()
        await until(lambda: rig.receiver.count(OTHER) == 40)
        await rig.end("resp_later")
        rig.webhooks.send_soon()
        await until(lambda: rig.receiver.count(OTHER) == 41)
        assert rig.receiver.count(URL) == 2  # those that are sent at the same time

        may_answer.set()
        await until(lambda: rig.receiver.count(URL) == 41)
    finally:
        may_answer.set()
        running.cancel()


async def test_a_try_never_holds_up_the_end_of_the_process(rig):
    await rig.end()

    await rig.webhooks.send_due()

    assert rig.receiver.daemons == [True]


async def test_a_store_that_cannot_be_used_now_is_asked_again(rig, monkeypatch):
    await rig.end()

    async def fail(*_):
        raise StoreUnusable("away")

    with monkeypatch.context() as away:
        away.setattr(rig.store, "take_due", fail)
        await rig.webhooks.send_due()
    await rig.webhooks.send_due()

    assert len(rig.receiver.seen) == 1


def test_a_signature_is_that_of_the_example_in_the_standard():
    headers = sign("msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}', [SECRET], 1_614_265_330.9)

    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@pytest.mark.parametrize("secret", [SECRET, "a plain secret of sufficient length"])
def test_the_sdk_takes_an_event_with_its_secret_and_with_no_other(secret):
    body = write_event(EVENT)
    headers = sign(EVENT.id, body, [secret], time.time())
    client = openai.OpenAI(api_key="-", webhook_secret=secret)

    event = client.webhooks.unwrap(body, headers)

    assert json.loads(body)["data"] == {"id": "resp_ab12"}
    assert (event.id, event.object, event.type, event.data.id) == ("evt_1", "event", "response.completed", "resp_ab12")
    assert repr(event.created_at) == "1700000000"
    with pytest.raises(openai.InvalidWebhookSignatureError):
        client.webhooks.unwrap(body, headers, secret="another secret, as long as that")
    with pytest.raises(openai.InvalidWebhookSignatureError):
        client.webhooks.unwrap(body.replace(b"ab12", b"ab13"), headers)


def test_an_event_with_two_secrets_is_taken_by_receivers_that_know_either_and_no_other():
    old, body = "the secret of last year, as long as it must be", write_event(EVENT)
    headers = sign(EVENT.id, body, [old, SECRET], time.time())

    assert headers["webhook-signature"].count(" ") == 1
    for secret in (old, SECRET):
        assert sdk().webhooks.unwrap(body, headers, secret=secret).id == EVENT.id
    with pytest.raises(openai.InvalidWebhookSignatureError):
        sdk().webhooks.unwrap(body, headers, secret="another secret, as long as that")
