"""What a caller may read by who it is."""

import pytest

from router.contract.caller import LOCAL, Caller
from router.contract.rights import EVERYTHING, Rights
from router.edge.control.panel import Asked

ADA, BOB = Caller("ada"), Caller("bob")


async def nothing():
    return
    yield b""


@pytest.mark.parametrize(
    ("caller", "rights", "key", "known"),
    [
        (LOCAL, EVERYTHING, None, {LOCAL, ADA, BOB}),
        (ADA, EVERYTHING, None, {LOCAL, ADA, BOB}),
        (ADA, Rights(), "k1", {ADA}),
        (ADA, EVERYTHING, "k1", {ADA}),
        (LOCAL, EVERYTHING, "own", {LOCAL}),
    ],
    ids=["at-the-machine", "with-a-key-for-a-target", "with-a-key", "admin", "the-routers-user-where-keys-are-asked-for"],
)
def test_without_keys_every_job_may_be_read_and_with_keys_ones_own(caller, rights, key, known):
    asked = Asked("req_1", caller, {}, {}, {}, nothing(), rights, key)

    assert {job for job in (LOCAL, ADA, BOB) if asked.may_read(job)} == known
    assert asked.whose_jobs == (caller if key else None)
