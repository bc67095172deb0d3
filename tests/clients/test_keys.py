"""Real clients with a key, by `tandem connect --key-env`, over TLS: they answer, and say what is wrong when they are refused."""

import shlex
import sys

import pytest

from tests.clients.test_connect import CLIENTS, COMPLAINTS, FAST, Place
from tests.conftest import SIMULATED
from tests.tools.caller_keys import ASKS_FOR_KEYS, write_keys
from tests.tools.clients import run_client
from tests.tools.tls_front import make_certificates, serve_tls

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
    tandem = await start(ASKS_FOR_KEYS + SIMULATED)
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
