"""A certificate for TLS, and a target that speaks WebSocket."""

import asyncio
import shutil
import subprocess

import pytest

from tests.tools.socket_upstream import SocketUpstream


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not here: TLS was not tried")
    folder = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost,DNS:models.example"]
    command += ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture
async def listen():
    """Starts a server on a free port, and answers the port. It is closed with the test."""
    servers = []

    async def start(serve, **more) -> int:
        servers.append(await asyncio.start_server(serve, "127.0.0.1", 0, **more))
        return servers[-1].sockets[0].getsockname()[1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
async def target():
    server = SocketUpstream()
    await server.start()
    yield server
    await server.stop()
