"""Every event as a sentence for a person."""

import inspect
import re
from collections.abc import Sequence

import pytest

from router.contract.words import AccountFault
from router.telemetry import events
from router.telemetry.sentences import say_event

VALUES = {str: "spark", str | None: "spark", int: 3, float: 2.5, bool: True, Sequence[str]: ["a: b"], Exception: ValueError()}
OWN = {"fault": AccountFault.KEY}
EVENTS = [
    function
    for _, function in inspect.getmembers(events, inspect.isfunction)
    if "_log." in inspect.getsource(function) and function.__name__ != "request_rejected"
]
FOR_PROGRAMS = ("server_started", "server_stopped", "job_accepted", "job_started")


@pytest.fixture
def said():
    """The sentences that were said, each with its level."""
    found: list[tuple[str, str]] = []
    events.set_up_logging(lambda *told: found.append(told))
    yield found
    events.set_up_logging()


def call(function) -> None:
    parameters = inspect.signature(function).parameters.values()
    function(**{one.name: OWN.get(one.name) or VALUES[one.annotation] for one in parameters})


@pytest.mark.parametrize("function", EVENTS, ids=lambda function: function.__name__)
def test_every_event_is_a_sentence_without_codes(function, said):
    call(function)

    if function.__name__ in FOR_PROGRAMS:
        assert said == []
        return
    ((sentence, _),) = said
    assert not re.search(r"\w=|[{}]|\bNone\b", sentence)


def test_a_target_that_cannot_serve_is_named_with_its_words_and_the_cure_is_last():
    fields = {"target": "anthropic", "code": "upstream_auth", "fault": AccountFault.KEY, "words": "invalid x-api-key"}

    assert say_event("target.misconfigured", fields) == (
        "anthropic: its host refuses the API key (invalid x-api-key); hint: put a working key in place, then tandem reload;"
        " tandem check --live checks it"
    )


def test_a_revoked_key_is_told_with_what_it_ended():
    ended = {"waiting_jobs": 0, "running_jobs": 2, "sockets": 1, "feeds": 0}

    assert (
        say_event("key.revoked", {"key": "ada-1", **ended})
        == "key ada-1 no longer works, which ended 2 running jobs, 1 sockets"
    )
    assert say_event("key.revoked", {"key": None, **ended}).startswith("a key is needed now, ")


def test_what_is_not_known_is_left_out():
    assert say_event("key.refused", {"reason": "not a key of Tandem"}) == "a key was refused: not a key of Tandem"
    assert "lost" not in say_event("ledger.failed", {"reason": "DiskFull", "lost": 0})
    assert say_event("clock.differs", {"store": "valkey", "seconds": -2.0}).startswith(
        "the clock of the valkey server is 2 s behind"
    )
