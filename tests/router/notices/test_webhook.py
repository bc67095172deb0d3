"""Messages to one address: tries, bounds, and what a receiver that fails costs."""

import json
import threading

import pytest

from router.contract.notices import Trouble
from router.contract.secret import Secret
from router.notices.webhook import Message, Webhook
from tests.tools.waiting import until

ADDRESS = Secret("http://127.0.0.1:1/hook-canary-0123456789")
MESSAGE = Message("Tandem: spark: fails", Trouble.TARGET_OUT, "spark", "began", 100.0, "tandem check --live")


class Receiver:
    """Answers with these statuses, one after the other, and keeps what came."""

    def __init__(self, *statuses: int | Exception) -> None:
        self.statuses, self.bodies, self.addresses = list(statuses), list[dict](), list[str]()
        self.go = threading.Event()
        self.go.set()

    def __call__(self, address: str, body: bytes) -> int:
        self.go.wait(30)
        self.addresses.append(address)
        self.bodies.append(json.loads(body))
        status = self.statuses.pop(0) if self.statuses else 200
        if isinstance(status, Exception):
            raise status
        return status


def make_webhook(receiver: Receiver) -> Webhook:
    webhook = Webhook(receiver, pauses=(0.0, 0.0, 0.0))
    webhook.follow(ADDRESS)
    return webhook


def unsent(capfd) -> list[dict]:
    lines = capfd.readouterr().err.splitlines()
    return [json.loads(line) for line in lines if '"alert.unsent"' in line]


async def test_a_message_is_sent_as_json_with_a_text():
    webhook = make_webhook(receiver := Receiver())

    webhook.send(MESSAGE)
    await webhook.close()

    assert receiver.addresses == [ADDRESS.reveal()]
    assert receiver.bodies == [
        {
            "text": "Tandem: spark: fails",
            "kind": "target_out",
            "subject": "spark",
            "state": "began",
            "since": 100.0,
            "hint": "tandem check --live",
        }
    ]


@pytest.mark.parametrize(
    ("statuses", "tries", "reason"),
    [
        ([500, 200], 2, None),
        ([OSError("no route"), 429, 503, 204], 4, None),
        ([500] * 9, 4, "status 500"),
        ([ConnectionRefusedError()] * 9, 4, "ConnectionRefusedError"),
        ([404], 1, "status 404"),
        ([302], 1, "status 302"),
        ([ValueError("a defect")] * 9, 4, "ValueError"),
    ],
)
async def test_a_failure_that_may_pass_is_tried_three_times_more_and_the_last_one_is_one_event(
    statuses, tries, reason, capfd, json_log
):
    webhook = make_webhook(receiver := Receiver(*statuses))

    webhook.send(MESSAGE)
    await until(lambda: webhook.is_idle)

    assert len(receiver.bodies) == tries
    assert [line["reason"] for line in unsent(capfd)] == ([reason] if reason else [])


async def test_no_event_has_the_address_in_it(capfd, json_log):
    webhook = make_webhook(Receiver(OSError(f"cannot reach {ADDRESS.reveal()}"), 404))

    webhook.send(MESSAGE)
    await until(lambda: webhook.is_idle)

    assert "canary" not in capfd.readouterr().err


async def test_of_more_than_a_hundred_that_wait_the_oldest_are_dropped_with_an_event_each(capfd, json_log):
    webhook = make_webhook(receiver := Receiver())
    receiver.go.clear()
    webhook.send(MESSAGE)
    await until(lambda: webhook.waiting == 0)

    for number in range(103):
        webhook.send(Message(f"{number}", Trouble.TARGET_OUT, f"target-{number}", "began", 0.0, ""))
    receiver.go.set()
    await until(lambda: webhook.is_idle)

    assert [body["text"] for body in receiver.bodies] == ["Tandem: spark: fails", *(str(number) for number in range(3, 103))]
    assert [line["subject"] for line in unsent(capfd)] == ["target-0", "target-1", "target-2"]


async def test_without_an_address_nothing_is_sent_and_what_waited_is_forgotten():
    webhook = make_webhook(receiver := Receiver())
    receiver.go.clear()
    webhook.send(MESSAGE)
    webhook.send(MESSAGE)
    await until(lambda: webhook.waiting == 1)

    webhook.follow(None)
    webhook.send(MESSAGE)
    receiver.go.set()
    await until(lambda: webhook.is_idle)

    assert len(receiver.bodies) == 1


async def test_closing_ends_the_pause_between_two_tries(capfd, json_log):
    receiver = Receiver(*[500] * 9)
    webhook = Webhook(receiver, pauses=(600.0,))
    webhook.follow(ADDRESS)
    webhook.send(MESSAGE)
    await until(lambda: receiver.bodies)

    await webhook.close()

    assert webhook.is_idle
    assert len(unsent(capfd)) == 1


async def test_closing_does_not_wait_for_a_receiver_that_hangs():
    webhook = make_webhook(receiver := Receiver())
    receiver.go.clear()
    webhook.send(MESSAGE)

    await webhook.close()

    assert not webhook.is_idle
    receiver.go.set()
    await until(lambda: webhook.is_idle)
