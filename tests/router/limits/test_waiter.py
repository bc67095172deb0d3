import asyncio

from router.contract.caller import LOCAL, SessionKey
from router.limits.quota import Grant
from router.limits.waiter import Ask, Permit, Waiter

WHO = SessionKey(LOCAL, "s")


class Noting:
    """A queue that keeps what it was told."""

    def __init__(self) -> None:
        self.told = []

    def end(self, grant, now, ended) -> None:
        grant.is_open = False
        self.told.append(("end", now))

    def take_back(self, grant, now) -> None:
        grant.is_open = False
        self.told.append(("take back", now))


def test_a_permit_is_given_back_once():
    queue = Noting()
    permit = Permit(queue, Grant(0.0, 100), WHO, 0.1)

    permit.take_back(1.0)
    permit.end(2.0, None)
    permit.take_back(3.0)

    assert queue.told == [("take back", 1.0)]


async def test_a_waiter_has_its_permit_once_it_is_let_in_and_none_if_it_left():
    permit = Permit(Noting(), Grant(0.0, 100), WHO, 0.1)
    served, gone = (Waiter(Ask(WHO, 100, 0.1, number), asyncio.get_running_loop().create_future()) for number in range(2))
    assert served.permit is None

    served.let_in.set_result(permit)
    gone.let_in.cancel()

    assert (served.permit, gone.permit) == (permit, None)
