"""Waiting for a job to change."""

from router.stores.watches import Watches


async def test_a_change_before_the_wait_is_heard_once():
    watches = Watches()
    watch = watches.watch("resp_1")

    watches.note("resp_1")

    assert [await watch.wait(0.0), await watch.wait(0.0)] == [True, False]


async def test_everyone_who_watches_a_job_hears_of_it_and_nobody_else():
    watches = Watches()
    two, other, any_job = [watches.watch("resp_1") for _ in range(2)], watches.watch("resp_2"), watches.watch(None)

    watches.note("resp_1")

    heard = [await watch.wait(0.0) for watch in (*two, other, any_job)]
    assert heard == [True, True, False, False]


async def test_all_can_be_woken():
    watches = Watches()
    all_of_them = [watches.watch("resp_1"), watches.watch(None)]

    watches.note_all()

    assert [await watch.wait(0.0) for watch in all_of_them] == [True, True]


async def test_a_closed_watch_hears_nothing_and_leaves_the_others():
    watches = Watches()
    closed, left = watches.watch("resp_1"), watches.watch("resp_1")
    closed.close()

    watches.note("resp_1")

    assert [await closed.wait(0.0), await left.wait(0.0)] == [False, True]
    left.close()
