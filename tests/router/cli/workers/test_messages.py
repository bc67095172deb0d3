"""Messages between processes: what is written is what is read."""

import pytest
from msgspec import Raw

from router.cli.workers.messages import Kind, Message, Round, Rounds, Taken, Topic, read_message, write_body, write_message
from router.config.faults import ConfigError, Fault


def test_a_message_is_one_line_and_is_read_as_it_was_written():
    line = write_message(Kind.ANSWER, Topic.RELOAD, 3, write_body({"text": "two\nlines"}))

    assert line.count(b"\n") == 1
    message = read_message(line)
    assert (message.kind, message.topic, message.number) == (Kind.ANSWER, Topic.RELOAD, 3)
    assert bytes(message.body) == b'{"text":"two\\nlines"}'


def test_faults_of_a_config_are_raised_where_they_are_read():
    taken = Taken.refused(ConfigError("config.yaml", [Fault("a.b", "is wrong", "do this")]))

    with pytest.raises(ConfigError) as raised:
        taken.get()

    assert raised.value.source == "config.yaml"
    assert raised.value.faults == [Fault("a.b", "is wrong", "do this")]


def begin(workers: set[int], topic: Topic = Topic.FIGURES, now: float = 0.0) -> tuple[Rounds, Round, Message]:
    rounds, asked = Rounds(), Round.asked_by(1, Message(Kind.ASK, topic, 7))
    return rounds, asked, read_message(rounds.begin(asked, workers, now))


def answer(question: Message, body: bytes) -> Message:
    return Message(Kind.ANSWER, question.topic, question.number, Raw(body))


def test_a_round_is_over_when_every_worker_has_answered():
    rounds, asked, question = begin({1, 2})

    first, second = rounds.take(2, answer(question, b"2")), rounds.take(1, answer(question, b"1"))

    assert (first, second) == ([], [asked])
    assert {worker: bytes(body) for worker, body in asked.answers.items()} == {"2": b"2", "1": b"1"}


def test_a_worker_that_ended_is_not_waited_for():
    rounds, asked, question = begin({1, 2})
    rounds.take(1, answer(question, b"1"))

    assert rounds.drop(2) == [asked]
    assert rounds.next_deadline is None


def test_a_worker_that_hangs_is_waited_for_until_the_deadline():
    rounds, asked, _ = begin({1, 2}, now=100.0)

    assert rounds.next_deadline == 102.0
    assert rounds.take_overdue(101.9) == []
    assert rounds.take_overdue(102.0) == [asked]


def test_an_answer_that_comes_too_late_is_dropped():
    rounds, asked, question = begin({1})
    rounds.take_overdue(1_000.0)

    assert rounds.take(1, answer(question, b"1")) == []
    assert asked.answers == {}
