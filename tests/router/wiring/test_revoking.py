"""When it is looked for what revoked and expired keys began."""

from types import SimpleNamespace

import pytest

from router.contract.caller import Caller
from router.contract.keys import Key, KeyRing
from router.contract.lasting import Held, Lasting
from router.contract.rights import Rights
from router.contract.stores import StoreUnusable
from router.wiring.revoking import Revoking

ADA = Caller("ada")


def ring_of(*keys: tuple[str, float | None]) -> KeyRing:
    return KeyRing([Key(name, ADA, name.encode(), end) for name, end in keys], {"ada": Rights()})


class Desk:
    def __init__(self) -> None:
        self.now, self.looks, self.trouble = 0.0, 0, None
        self.state = SimpleNamespace(lasting=Lasting())
        self.plan = SimpleNamespace(keys=ring_of(("one", None), ("two", 100.0)))
        self.revoking = Revoking(self, self, lambda: self.now)

    async def end_revoked(self):
        self.looks += 1
        if self.trouble is not None:
            raise self.trouble
        return [("one", "waiting_jobs")] * 2 if self.looks == 1 else []


@pytest.fixture
def desk():
    return Desk()


async def test_jobs_are_looked_for_when_keys_change_and_when_one_expires(desk):
    for moment in (0.0, 50.0, 100.0, 150.0):
        desk.now = moment
        await desk.revoking.look()
        await desk.revoking.look()
    assert desk.looks == 2

    desk.plan.keys = ring_of(("two", None))
    await desk.revoking.look()

    assert desk.looks == 3


async def test_jobs_that_could_not_be_reached_are_looked_for_again(desk):
    desk.trouble = StoreUnusable("away")
    await desk.revoking.look()
    await desk.revoking.look()
    desk.trouble = None
    await desk.revoking.look()
    await desk.revoking.look()

    assert desk.looks == 3


async def test_what_was_ended_is_kept_by_key_and_logged(desk, listen):
    heard = listen()
    desk.state.lasting.hold(Held("sockets", ADA, "gone"))
    await desk.revoking.look()
    desk.state.lasting.hold(Held("sockets", ADA, "gone"))
    desk.plan.keys = ring_of(("one", None))
    await desk.revoking.look()

    assert desk.revoking.describe() == {"one": {"waiting_jobs": 2}, "gone": {"sockets": 2}}
    assert [(event["event"], event["key"], event["sockets"], event["waiting_jobs"]) for event in heard()] == [
        ("key.revoked", "gone", 1, 0),
        ("key.revoked", "one", 0, 2),
        ("key.revoked", "gone", 1, 0),
    ]


async def test_without_keys_nothing_is_looked_for(desk):
    desk.plan.keys = None
    await desk.revoking.look()

    assert (desk.looks, desk.revoking.describe()) == (0, {})
