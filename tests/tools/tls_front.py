"""TLS in front of a router, for real clients: an authority, its certificate for 127.0.0.1, and a relay that ends TLS.

Whether the router's own TLS is used, or this relay, is decided here and nowhere else.
"""

import asyncio
import contextlib
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.tools.later import later


@dataclass(frozen=True)
class Certificates:
    """PEM files: who signed, and what a server shows."""

    authority: Path
    certificate: Path
    key: Path

    @property
    def variables(self) -> dict[str, str]:
        """How clients are told to trust the authority: Python and Rust, Node."""
        return {"SSL_CERT_FILE": str(self.authority), "NODE_EXTRA_CA_CERTS": str(self.authority)}


def make_certificates(folder: Path) -> Certificates:
    """An authority and a certificate of its own. Rust's TLS refuses an authority that serves as a server."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not here: TLS was not tried")
    made = Certificates(folder / "ca.pem", folder / "cert.pem", folder / "key.pem")
    extension = folder / "extension"
    extension.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n")
    sign = ["-CA", str(made.authority), "-CAkey", f"{folder}/ca.key", "-CAcreateserial", "-extfile", str(extension)]
    for command in (
        ["req", "-x509", "-subj", "/CN=Test authority", "-keyout", f"{folder}/ca.key", "-out", str(made.authority)],
        ["req", "-subj", "/CN=localhost", "-keyout", str(made.key), "-out", f"{folder}/cert.csr"],
        ["x509", "-req", "-in", f"{folder}/cert.csr", *sign, "-out", str(made.certificate)],
    ):
        new = ["-newkey", "rsa:2048", "-nodes"] if command[0] == "req" else []
        days = [] if command[:2] == ["req", "-subj"] else ["-days", "2"]
        subprocess.run(["openssl", *command, *new, *days], check=True, capture_output=True)
    return made


@contextlib.asynccontextmanager
async def serve_tls(port: int, certificates: Certificates) -> AsyncIterator[str]:
    """The address at which a router on this port answers over TLS."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.certificate, certificates.key)
    tasks: set[asyncio.Task] = set()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        here = asyncio.current_task()
        tasks.add(here)
        try:
            theirs, ours = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(_pump(reader, ours), _pump(theirs, writer))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(here)

    server = await asyncio.start_server(relay, "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await later(asyncio.sleep(0))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """All bytes of one side. An end that is one for TLS is one for both directions: TLS has no half-closed connections."""
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
