"""What is reported of a server that refuses commands, how often, and until when it counts as refusing."""

import pytest
from structlog.testing import capture_logs

pytest.importorskip("hiredis")

from router.stores.valkey.refusals import Refusals, Refusing
from router.stores.valkey.wire import Refused


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_each_kind_of_refusal_is_reported_once_a_minute_with_the_count_of_all():
    clock = Clock()
    refusals = Refusals(clock)

    with capture_logs() as logs:
        for clock.now, code in ((100.0, "OOM"), (101.0, "OOM"), (102.0, "BUSY"), (159.0, "OOM"), (160.0, "OOM")):
            refusals.note(Refused(code))

    assert [(line["event"], line["reason"], line["count"]) for line in logs] == [
        ("store.refused", "OOM: its memory is full", 1),
        ("store.refused", "BUSY: it is busy with a script", 3),
        ("store.refused", "OOM: its memory is full", 5),
    ]


def test_a_server_refuses_from_the_first_refusal_until_a_minute_after_the_last():
    clock = Clock()
    refusals = Refusals(clock)
    assert refusals.look() is None

    refusals.note(Refused("OOM"))
    clock.now = 150.0
    refusals.note(Refused("ODD"))
    clock.now = 209.0
    assert refusals.look() == Refusing("ODD", 100.0)

    clock.now = 210.0
    assert refusals.look() is None
    refusals.note(Refused("OOM"))
    assert refusals.look() == Refusing("OOM: its memory is full", 210.0)


def test_a_key_that_another_program_uses_is_reported_and_is_no_refusal_of_the_server():
    refusals = Refusals(Clock())

    with capture_logs() as logs:
        refusals.note(Refused("WRONGTYPE"))

    assert [line["reason"] for line in logs] == ["WRONGTYPE: another program uses a key of ours"]
    assert refusals.look() is None
