import pytest

from tests.tools.plans import HI
from tests.tools.running import two_targets
from tests.tools.speech import speak
from tests.tools.upstream import CHAT_ANSWER, Upstream, answer_json


@pytest.fixture
async def pair(start, upstream, other_upstream):
    """A Tandem with scripted fast and deep tiers."""
    tandem = await start(two_targets(upstream.base_url, other_upstream.base_url))
    upstream.scripts = other_upstream.scripts = [answer_json(CHAT_ANSWER)]
    return tandem


@pytest.fixture
async def vendors():
    """Recording servers for both plans, a fast target and a spare with an API key."""
    servers = {name: Upstream() for name in ("claude", "chatgpt", "spark", "spare")}
    for name, server in servers.items():
        await server.start()
        server.scripts = [speak({"claude": "messages", "chatgpt": "responses"}.get(name, "chat"), HI)]
    yield servers
    for server in servers.values():
        await server.stop()
