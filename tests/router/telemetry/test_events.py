"""What is logged: one JSON line for a program, a sentence for a person, and never a text of the request."""

import contextlib
import io
import json
import sys
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from router.contract.entry import Line
from router.contract.words import Tier
from router.telemetry import events
from tests.tools.kept import LINE

SETTLED = replace(
    LINE,
    because="looks like a quick edit",
    tier=Tier.DEEP,
    target="sage",
    overhead_ms=1.5,
    ttft_ms=80.0,
    duration_ms=900.0,
    tokens_per_second=55.0,
    input_tokens=10,
    output_tokens=20,
    tokens_estimated=True,
    score=0.25,
    attempts=2,
)


@pytest.fixture
def logged(capsys):
    """Set up logging to where it can be read, and read the lines."""

    def set_up() -> Callable[[], list[str]]:
        events.set_up_logging()
        return lambda: capsys.readouterr().err.splitlines()

    yield set_up
    events.set_up_logging()


@pytest.fixture
def noted():
    """The sentences for a person, each with its level."""
    taken: list[tuple[str, str]] = []
    events.set_up_logging(lambda *told: taken.append(told))
    yield taken
    events.set_up_logging()


def test_an_event_is_one_line_of_json_with_its_name_level_and_time(logged):
    lines = logged()

    events.ledger_failed(reason="disk full", lost=3)
    events.config_warned(warning="a key is literal")

    failed, warned = map(json.loads, lines())
    assert (failed["event"], failed["level"], failed["reason"], failed["lost"]) == ("ledger.failed", "error", "disk full", 3)
    assert (warned["event"], warned["level"]) == ("config.warned", "warning")
    assert failed["timestamp"].endswith("Z")


def test_a_settled_request_is_one_line_of_json_with_every_field_of_its_line(logged):
    lines = logged()

    events.request_settled(SETTLED)

    (line,) = lines()
    told = json.loads(line)
    assert (told["event"], told["request_id"], told["tier"], told["target"]) == ("request.settled", "req_1", "deep", "sage")
    assert (told["attempts"], told["tokens_estimated"], told["output_tokens"], told["score"]) == (2, True, 20, 0.25)
    assert (told["outcome"], told["dialect"], told["turn_kind"], told["streaming"]) == ("SERVED", "chat", "ask", True)
    fields = ["request_id" if name == "id" else name for name in Line.__struct_fields__]
    assert list(told) == ["event", "level", "timestamp", *fields]


def test_a_request_without_usage_or_tier_is_told_all_the_same(logged):
    lines = logged()

    events.request_settled(replace(SETTLED, input_tokens=None, tokens_estimated=None, tier=None))

    told = json.loads(lines()[0])
    assert (told["tier"], told["input_tokens"], told["tokens_estimated"]) == (None, None, None)


def test_for_a_person_a_reload_is_one_line_without_hints(noted):
    events.config_reloaded(changed=("tiers.fast (a)",), needs_restart=("server.port", "shared"), before="x", fingerprint="y")
    events.config_reloaded(changed=(), needs_restart=(), before="x", fingerprint="x")
    events.config_kept(source="config.yaml", faults=("tiers: missing\n  hint: write them", "server.prot: no such setting"))
    events.secrets_reloaded(changed=("tiers.fast (spark)",))
    events.keys_reloaded(changed=("callers (ada)",), callers=1, keys=1)
    events.keys_kept(faults=("keys.yaml file: other users may read it\n  hint: chmod",))

    assert [sentence for sentence, _ in noted] == [
        "config reloaded: tiers.fast (a); needs a restart, and stays as before until then: server.port, shared",
        "config reloaded: nothing changed",
        "config.yaml was not taken, and the config before it stays in use: tiers: missing; server.prot: no such setting",
        "secrets reloaded: tiers.fast (spark)",
        "keys reloaded: callers (ada)",
        "the key file was not taken, and no key was added or revoked: keys.yaml file: other users may read it",
    ]


def test_a_reader_that_is_gone_costs_nobody_their_answer(logged, monkeypatch):
    logged()
    gone = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stderr", gone)
    gone.close()

    events.request_settled(SETTLED)
    events.server_stopped()


def test_where_an_error_came_from_is_its_innermost_line_and_never_a_value():
    def inner(secret: str) -> None:
        raise ValueError(secret)

    try:
        inner("CANARY")
    except ValueError as error:
        place = events.place_of(error)

    name, _, line = place.partition(":")
    assert name == "inner"
    assert int(line) > 0
    assert events.place_of(ValueError("never raised")) == ""


def test_a_person_sees_requests_as_turns_and_gets_the_other_events(noted, capsys):
    events.request_settled(SETTLED)
    events.server_stopped()
    events.job_ended(job="resp_1", state="completed")
    events.policy_skipped(policy="mine", reason="ValueError")
    events.request_rejected(status=413, code="body_too_large")

    assert noted == [
        ("job resp_1 completed", "info"),
        ("policy mine was skipped: ValueError", "warning"),
        ("413 rejected  body too large", "info"),
    ]
    assert capsys.readouterr().err == ""


def test_a_person_does_not_read_of_codex_trying_a_websocket_first_and_a_program_does(noted, capsys):
    events.request_rejected(status=426, code="upgrade_required")
    assert noted == []

    events.set_up_logging()
    events.request_rejected(status=426, code="upgrade_required")
    assert json.loads(capsys.readouterr().err)["status"] == 426


def test_what_a_caller_sent_cannot_steer_the_terminal(noted):
    events.request_rejected(status=404, code="not_found", message="no route /\x1b[2J")

    assert noted == [("404 rejected  no route /?[2J", "info")]


def test_lines_that_belong_together_are_written_at_once_and_in_their_order(logged, monkeypatch):
    logged()
    written: list[bytes] = []

    class Output(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, data) -> int:
            written.append(bytes(data))
            return len(data)

    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BufferedWriter(Output())))
    with events.together():
        events.request_settled(SETTLED)
        events.config_warned(warning="between them")
        for _ in range(20):
            events.request_settled(SETTLED)
        assert written == []
    events.config_warned(warning="after them")

    assert len(written) == 2
    names = [json.loads(line)["event"] for line in b"".join(written).splitlines()]
    assert names == ["request.settled", "config.warned", *["request.settled"] * 20, "config.warned"]


def test_lines_that_wait_are_written_though_what_they_tell_of_fails(logged):
    lines = logged()

    with contextlib.suppress(KeyError), events.together():
        events.request_settled(SETTLED)
        raise KeyError

    assert len(lines()) == 1
