"""Small bodies for pages."""

import pytest

from router.contract.caller import LOCAL
from router.contract.errors import BadRequest, BodyTooLarge, WrongMediaType
from router.edge.control.bodies import read_small_body
from router.edge.control.panel import Asked
from tests.tools.edge import LIMITS


def asked(*pieces: bytes, **headers: str) -> Asked:
    async def body():
        for piece in pieces:
            yield piece

    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Asked("req_1", LOCAL, {}, {}, named, body())


async def test_an_object_is_read_from_its_pieces():
    assert await read_small_body(asked(b'{"tier":', b' "deep"}'), LIMITS) == {"tier": "deep"}


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (asked(b""), BadRequest),
        (asked(b"[1]"), BadRequest),
        (asked(b'{"a": '), BadRequest),
        (asked(b" " * 4_000, b" " * 4_000), BodyTooLarge),
        (asked(b"{}", content_type="text/plain"), WrongMediaType),
        (asked(b"{}", content_encoding="gzip"), WrongMediaType),
        (asked(b"{}", content_length="+2"), BadRequest),
    ],
)
async def test_anything_else_is_refused(given, error):
    with pytest.raises(error):
        await read_small_body(given, LIMITS)
