import pytest

from tests.tools.running import two_targets
from tests.tools.upstream import CHAT_ANSWER, answer_json


@pytest.fixture
async def pair(start, upstream, other_upstream):
    """A Tandem with scripted fast and deep tiers."""
    tandem = await start(two_targets(upstream.base_url, other_upstream.base_url))
    upstream.scripts = other_upstream.scripts = [answer_json(CHAT_ANSWER)]
    return tandem
