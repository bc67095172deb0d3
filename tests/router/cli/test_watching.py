"""Following a job to its end."""

import pytest

from router.cli.asking import Refused, Unreachable
from router.cli.background import Jobs
from router.cli.watching import describe_end, follow_to_the_end
from tests.tools.jobs_server import JOB, RUNNING, delta, end, event, make_response, serving_jobs


@pytest.fixture
def server(folder):
    with serving_jobs() as running:
        running.responses = [make_response(status=RUNNING), make_response()]
        yield running


class Watcher:
    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.pauses: list[float] = []

    def show(self, name: str, event: dict) -> None:
        self.numbers.append(event["sequence_number"])

    def follow(self, url: str) -> dict:
        return follow_to_the_end(Jobs(url), JOB, self.show, self.pauses.append)


def test_a_lost_connection_is_opened_again_after_the_last_number_that_was_seen(server):
    created = event("response.created", 0)
    server.streams = [[created, delta("a", 1), delta("b", 2)], [delta("c", 3), end(4)]]
    server.responses = [make_response(status=RUNNING)]
    watcher = Watcher()

    response = watcher.follow(server.url)

    assert watcher.numbers == [0, 1, 2, 3, 4]
    assert response["status"] == "completed"
    assert [path for path in server.paths if "stream" in path] == [
        f"GET /v1/responses/{JOB}?stream=true",
        f"GET /v1/responses/{JOB}?stream=true&starting_after=2",
    ]
    assert watcher.pauses == [0.5]


def test_half_an_event_is_asked_for_again(server):
    server.streams = [[delta("a", 1), delta("b", 2)[:-9]], [delta("b", 2), end(3)]]
    watcher = Watcher()

    watcher.follow(server.url)

    assert watcher.numbers == [1, 2, 3]


def test_while_nobody_answers_pauses_grow_and_it_is_said_once(server, capsys):
    server.streams = [[delta("a", 1)], None, 503, None, None, None, [delta("b", 2)], [end(3)]]
    server.responses = [make_response(status=RUNNING)]
    watcher = Watcher()

    watcher.follow(server.url)

    assert watcher.pauses == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 0.5]
    assert capsys.readouterr().err.count("lost the router") == 2


def test_an_answer_that_ends_without_its_last_event_is_read_as_a_whole(server):
    server.streams = [[delta("a", 1)]]
    server.responses = [make_response("", "cancelled")]

    assert Watcher().follow(server.url)["status"] == "cancelled"


def test_where_no_router_answers_at_first_it_is_not_tried_again(folder):
    watcher = Watcher()

    with pytest.raises(Unreachable):
        watcher.follow("http://127.0.0.1:9")

    assert watcher.pauses == []


@pytest.mark.parametrize("streams", [[503], [[delta("a", 1)], 404]])
def test_a_refusal_at_first_or_for_good_ends_it(server, streams):
    server.streams = streams

    with pytest.raises(Refused):
        Watcher().follow(server.url)


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (make_response(), "completed after 41s, 1.2k tokens"),
        (make_response(status="failed", error={"message": "interrupted"}), "failed: interrupted"),
        (make_response(status="cancelled"), "cancelled"),
    ],
)
def test_an_end_is_one_line(response, words):
    assert describe_end(response) == words
