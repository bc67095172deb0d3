"""Questions to all workers: when a round is over."""

from msgspec import Raw

from router.cli.workers.messages import Kind, Message, Topic, read_message
from router.cli.workers.rounds import Round, Rounds


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
