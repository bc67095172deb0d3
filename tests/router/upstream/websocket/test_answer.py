"""What has come of one answer on a socket."""

import json

import pytest

from router.upstream.websocket.answer import Answer


def about(kind: str, response_id: str | None = None) -> tuple[str, bytes]:
    response = {} if response_id is None else {"response": {"id": response_id, "output": [1]}}
    return kind, json.dumps({"type": kind, **response}).encode()


def test_an_answer_keeps_the_id_that_it_began_with():
    answer = Answer(())

    assert answer.belongs(*about("response.created", "a"))
    assert answer.belongs(*about("response.in_progress", "a"))
    assert not answer.belongs(*about("response.completed", "b"))
    assert answer.belongs(*about("response.completed", "a"))


@pytest.mark.parametrize("kind", ["response.created", "response.completed", "response.failed"])
def test_a_response_that_the_socket_had_before_does_not_belong(kind):
    assert not Answer(("a", "b")).belongs(*about(kind, "a"))
    assert Answer(("a", "b")).belongs(*about(kind, "c"))


def test_after_an_earlier_answer_an_answer_must_say_which_it_is():
    assert not Answer(("a",)).belongs(*about("response.output_text.delta"))
    assert not Answer(("a",)).belongs(*about("response.created"))
    assert Answer(()).belongs(*about("response.output_text.delta"))


@pytest.mark.parametrize("text", [b'{"type":"response.completed", broken', b'{"response":null}', b'{"response":{"id":7}}'])
def test_an_end_that_cannot_be_read_does_not_belong(text):
    assert not Answer(()).belongs("response.completed", text)


def test_what_was_answered_is_that_of_its_items_or_else_of_its_end():
    answer, (_, end) = Answer(()), about("response.completed", "a")

    assert answer.find_items(end) == [1]
    answer.add_item(b'{"item":{"a":2}}')
    assert answer.find_items(end) == [{"a": 2}]
    answer.add_item(b'{"item":"%b"}' % (b"x" * 600_000))
    assert answer.find_items(end) is None


def test_an_end_that_is_too_large_is_not_read():
    assert Answer(()).find_items(b'{"response":{"output":["%b"]}}' % (b"x" * 600_000)) is None


def test_news_are_held_once_and_up_to_a_size():
    answer = Answer(())
    for _ in range(100):
        answer.hold("news", b"x" * 1_000)

    assert len(answer.release_early()) == 65
    assert answer.release_early() == []
