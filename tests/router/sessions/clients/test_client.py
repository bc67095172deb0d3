"""JSON that a client puts into a text."""

import pytest

from router.sessions.clients.client import parse_object


@pytest.mark.parametrize(("text", "found"), [('{"a":1}', {"a": 1}), ("", {}), ("{", {}), ("[]", {}), ("7", {}), ("null", {})])
def test_what_is_not_an_object_says_nothing(text, found):
    assert parse_object(text) == found
