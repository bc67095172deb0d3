"""Connections and their deadlines are tested on a loop whose clock a test moves by hand."""

from tests.tools.edge import ManualLoop


def pytest_asyncio_loop_factories(config, item):
    return {"manual": ManualLoop} if item.path.parent.name == "http" or item.path.name == "test_deadline.py" else None
