"""How long a trip takes."""

from router.stores.look import time_trips


async def test_one_slow_trip_does_not_count(monkeypatch):
    moments = iter([0.0, 0.001, 1.0, 1.001, 2.0, 2.5, 3.0, 3.001, 4.0, 4.002])
    monkeypatch.setattr("time.perf_counter", lambda: next(moments))

    async def trip() -> None:
        pass

    assert round(await time_trips(trip), 3) == 1.0
