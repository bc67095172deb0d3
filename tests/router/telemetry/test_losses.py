"""The count of lost traces."""

from concurrent.futures import ThreadPoolExecutor

from router.telemetry.losses import Losses


def test_losses_that_several_threads_count_add_up():
    losses = Losses()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(losses.add, [3] * 1_000))

    assert losses.count == 3_000
