"""Connections are tested on a loop whose clock a test moves by hand."""

from tests.tools.edge import ManualLoop


def pytest_asyncio_loop_factories(config, item):
    return {"manual": ManualLoop}
