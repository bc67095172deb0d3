"""Reading a feed through lost connections."""

import contextlib
import urllib.error
from email.message import Message

from router.cli.feed_reader import FeedReader, Told, read_events
from tests.tools.feed_server import batch, event, make_hello, make_row


class Feed:
    """Gives each connection its own script: lines, or what is raised."""

    def __init__(self, *scripts) -> None:
        self.scripts, self.queries, self.told = list(scripts), list[str](), list[Told]()

    def open(self, query: str):
        self.queries.append(query)
        script = self.scripts.pop(0)
        if isinstance(script, Exception):
            raise script
        return contextlib.nullcontext(script.splitlines(keepends=True))

    def read(self) -> list[str]:
        FeedReader(self.open, self.told.append).read(lambda _: not self.scripts)
        return [told.event for told in self.told]


def refused(status: int) -> urllib.error.HTTPError:
    return urllib.error.HTTPError("http://x", status, "", Message(), None)


def test_comments_and_what_is_not_an_object_are_left_out():
    stream = b": still here\n\nevent: batch\nid: 7\ndata: {}\n\nevent: x\ndata: [1]\n\ndata: {\n\n"

    assert list(read_events(stream.splitlines(keepends=True))) == [("batch", "7", {})]


def test_after_a_lost_connection_it_goes_on_after_the_last_row():
    feed = Feed(event("hello", make_hello()) + batch(make_row("a"), number=41), TimeoutError("timed out"), b"")

    assert feed.read() == ["hello", "batch", "lost", "lost", "lost"]
    assert feed.queries == ["", "?after=41", "?after=41"]


def test_after_a_router_was_stopped_it_begins_with_the_next_one_from_its_beginning():
    feed = Feed(batch(make_row("a"), number=41), urllib.error.URLError(ConnectionRefusedError("refused")), b"")
    feed.read()

    assert feed.queries == ["", "?after=41", "?after=0"]


def test_a_first_connection_that_fails_ends_it():
    for error, status in ((refused(401), 401), (refused(503), 503), (ConnectionRefusedError("refused"), 0)):
        feed = Feed(error, b"")

        assert feed.read() == ["refused"]
        assert feed.told[0].data["status"] == status


def test_a_router_that_is_starting_again_is_tried_and_one_that_took_the_key_away_is_not():
    feed = Feed(batch(), refused(503), refused(401), b"")

    assert feed.read() == ["batch", "lost", "lost", "refused"]
