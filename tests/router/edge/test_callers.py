"""Who sends a request."""

import pytest

from router.contract.caller import LOCAL
from router.edge.callers import identify


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer x"}, {"x-api-key": "x"}])
def test_without_keys_everyone_is_the_local_caller(headers):
    assert identify(headers) is LOCAL
