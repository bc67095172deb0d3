"""Sockets and feeds of keys that no longer work."""

import pytest

from router.contract.caller import Caller
from router.contract.keys import Key, KeyRing, make_key
from router.contract.lasting import Held, Lasting
from router.contract.rights import Rights

ADA = Caller("ada")


@pytest.mark.parametrize("now", [99.0, 100.0])
def test_what_a_key_opened_is_closed_once_when_it_expires(now):
    key, closed, lasting = make_key(), list[str](), Lasting()
    ring = KeyRing([Key(key.id, ADA, key.digest, 100.0)], {"ada": Rights()})
    lasting.hold(Held("sockets", ADA, key.id, lambda: closed.append("socket")))
    lasting.hold(Held("feeds", ADA, None, lambda: closed.append("feed")))

    ended = [held.kind for held in lasting.end_revoked(ring, now)]

    assert ended == (["sockets"] if now == 100.0 else [])
    assert closed == ["socket"] * len(ended)
    assert lasting.end_revoked(ring, now) == []


def test_what_was_closed_by_its_caller_is_not_closed_again():
    lasting = Lasting()
    lasting.release(lasting.hold(Held("feeds", ADA, "0")))

    assert lasting.end_revoked(KeyRing((), {}), 0.0) == []
