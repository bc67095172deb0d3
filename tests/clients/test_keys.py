"""Real clients with a key, by `tandem connect --key-env`, over TLS: they answer, and say what is wrong when they are refused."""

import asyncio
import contextlib
import shlex
import shutil
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients.test_connect import CLIENTS, COMPLAINTS, FAST, Place
from tests.conftest import SIMULATED
from tests.tools.clients import run_client
from tests.tools.keyed import KEYS, write_keys
from tests.tools.waiting import later


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


pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]


class KeyedPlace(Place):
    """A place whose person has a key in a variable."""

    def __init__(self, folder, url, client, key, **variables) -> None:
        super().__init__(folder, url, client)
        self.environment |= {"MY_TANDEM_KEY": key, **variables}

    async def connect(self) -> str:
        return await self.tandem(self.client, "--yes", "--url", self.url, "--key-env", "MY_TANDEM_KEY")

    def holders(self, key: str) -> set[str]:
        """The files of the home in which the key itself is."""
        files = [path for path in (self.scratch / "home").rglob("*") if path.is_file()]
        return {path.name for path in files if key.encode() in path.read_bytes()}


@pytest.fixture
async def keyed(start, tmp_path):
    """A router that asks for keys, at an address with TLS, and the key of somebody with usual rights."""
    key = write_keys(tmp_path, ada="")["ada"].text
    certificates = make_certificates(tmp_path)
    tandem = await start(KEYS + SIMULATED)
    async with serve_tls(tandem.port, certificates) as url:
        yield url, key, certificates.variables, tandem


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_client_connected_with_a_key_answers_over_tls(keyed, tmp_path, client):
    url, key, variables, tandem = keyed
    place = KeyedPlace(tmp_path, url, client, key, **variables)
    told = await place.connect()
    assert "is connected to" in told, told

    said = await place.run_connected()

    assert FAST in " ".join(said.split()), said[-800:]
    assert [complaint for complaint in COMPLAINTS if complaint in said] == []
    assert {entry["caller"] for entry in await tandem.entries()} == {"ada"}
    written = {"cline": {"secrets.json", "record.json"}, "llm": {"keys.json", "record.json"}}
    assert place.holders(key) == written.get(client, set())
    assert key not in told + said


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_run_with_a_key_changes_no_file(keyed, tmp_path, client):
    url, key, variables, _ = keyed
    place = KeyedPlace(tmp_path, url, client, key, **variables)

    said = await place.tandem("--url", url, "--key-env", "MY_TANDEM_KEY", "--run", client, "--", *place.task)

    assert FAST in " ".join(said.split()), said[-800:]
    assert place.mentions() == []
    assert place.holders(key) == set()


SDKS = """
import os, anthropic, openai
task = [{"role": "user", "content": "Fix the typo in calc.py"}]
print(openai.OpenAI().chat.completions.create(model="auto", messages=task).choices[0].message.content)
print(openai.OpenAI().responses.create(model="auto", input="Fix the typo in calc.py").output_text)
print(anthropic.Anthropic().messages.create(model="auto", max_tokens=99, messages=task).content[0].text)
"""


async def test_both_sdks_find_address_and_key_in_the_variables_of_a_connected_shell(keyed, tmp_path):
    url, key, variables, tandem = keyed
    place = KeyedPlace(tmp_path, url, "llm", key, **variables)
    place.client = "env"
    await place.connect()

    script = f". $HOME/.bashrc; exec {sys.executable} -c {shlex.quote(SDKS)}"
    said = await run_client(["bash", "--norc", "-c", script], place.scratch, place.environment, seconds=200)

    assert " ".join(said.split()).count(FAST) == 3, said[-800:]
    assert {entry["caller"] for entry in await tandem.entries(3)} == {"ada"}
