"""What a screen is told of one process."""

import msgspec
import pytest
from msgspec.structs import replace

from router.contract.caller import LOCAL, Caller
from router.contract.facts import Dequeued, FirstToken, Queued, Recorded
from router.contract.job import EndedJob, JobState
from router.contract.notices import Notice, Trouble
from router.screen.seen import CallBegun, CallEnded, CallSpoke, CallWaits, Noted, Pinned, Rejected, Seen, Watch
from tests.tools.exchanges import make_decided, make_exchange
from tests.tools.kept import make_entry
from tests.tools.values import make_target


def make_watch(**more) -> Watch:
    return Watch(wall=lambda: 1_000.0, clock=lambda: 1.0, **more)


def see_everything() -> list[Seen]:
    watch = make_watch()
    watch.look_at(
        lambda: [Notice(Trouble.TARGET_OUT, "spark", 0.0, "spark: fails", "tandem check --live")],
        lambda: [EndedJob("resp_1", LOCAL, "s", JobState.COMPLETED, "Write the parser", 900.0)],
    )
    watch.note("the config was reloaded", "info")
    watch.reject(404, "no route /nowhere")
    exchange = make_exchange(watch, name="req_1")
    exchange.note(make_decided())
    exchange.note(Queued(0.0, make_target(), 1, 1, 4.0))
    exchange.note(Dequeued(1.0, make_target(), 1.0, has_turn=True))
    exchange.note(FirstToken(0.4, make_target()))
    exchange.note(Recorded(make_entry()))
    return watch.collect()


def test_everything_that_is_seen_is_collected_once():
    seen = see_everything()

    kinds = [Noted, Rejected, Pinned, CallBegun, CallWaits, CallWaits, CallSpoke, CallEnded]
    assert [type(one) for one in seen] == kinds
    assert seen[0] == Noted("the config was reloaded", "info", 1_000.0)
    assert seen[6] == CallSpoke("req_1", 0.4)


def test_a_worker_can_send_all_of_it():
    seen = see_everything()

    assert msgspec.json.decode(msgspec.json.encode(seen), type=list[Seen]) == seen


def test_what_did_not_change_is_not_pinned_again():
    watch = make_watch()
    notices = [Notice(Trouble.TARGET_OUT, "spark", 0.0, "spark: fails", "tandem check --live")]
    watch.look_at(lambda: notices)

    assert [type(one) for one in watch.collect()] == [Pinned]
    assert watch.collect() == []
    notices.clear()
    assert watch.collect() == [Pinned()]


@pytest.mark.parametrize(("caller", "words"), [(LOCAL, "hello"), (Caller("ada"), "")])
def test_a_job_is_shown_with_its_task_unless_it_is_another_persons(caller, words):
    watch = make_watch()
    exchange = make_exchange(watch)
    exchange.arrival, exchange.caller = replace(exchange.arrival, job="resp_1"), caller
    watch.look_at(tuple, lambda: [EndedJob("resp_1", caller, "s", JobState.COMPLETED, "hello", 900.0)])
    exchange.note(make_decided())

    pinned, begun = watch.collect()

    assert (begun.call.job, begun.call.words) == ("resp_1", words)
    assert [job.title for job in pinned.jobs] == [words]


def test_a_line_under_another_id_ends_its_call():
    watch = make_watch()
    entry = make_entry()
    make_exchange(watch, name="req_1").note(Recorded(replace(entry, line=replace(entry.line, id="req_2"))))

    (ended,) = watch.collect()

    assert ended.line.id == "req_1"
