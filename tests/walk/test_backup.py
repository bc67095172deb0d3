"""A backup that is made under load is restored elsewhere, and everything works there."""

import asyncio
import json
import tarfile

from router.cli import main
from tests.conftest import SIMULATED
from tests.tools.background import ask, begin, poll
from tests.tools.http import call, chat
from tests.tools.keyed import KEYS, Callers
from tests.tools.running import read_entries, running
from tests.tools.waiting import later, until

CONFIG = SIMULATED.replace("path: test.db", "path: kept/test.db") + "\nstore: {path: responses.db}\n" + KEYS


class Load:
    """Callers that keep asking, and what was answered."""

    def __init__(self, port, headers):
        self._port, self._headers, self._is_over = port, headers, False
        self.answered = list[str]()

    async def ask(self):
        while not self._is_over:
            reply = await call(self._port, "/v1/chat/completions", chat(), self._headers)
            self.answered.append(reply.headers["x-tandem-request-id"])

    async def __aenter__(self):
        self._tasks = [later(self.ask()) for _ in range(4)]
        return self

    async def __aexit__(self, *_):
        self._is_over = True
        await asyncio.gather(*self._tasks)


def tandem(*arguments):
    return asyncio.to_thread(main, ["ledger", *map(str, arguments)])


async def test_sessions_responses_jobs_marks_and_keys_of_a_backup_made_under_load_work_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (here := tmp_path / "here").mkdir()
    (there := tmp_path / "there").mkdir()
    (here / "config.yaml").write_text(CONFIG)
    (here / ".env").write_text("OPENAI_API_KEY=sk-canary\n")
    ada = Callers(here, ada={})["ada"]
    backup = tmp_path / "backup.tar"
    async with running(CONFIG, here) as router:
        stored = await call(router.port, "/v1/responses", {"model": "auto", "input": "hi", "store": True}, ada)
        job = await begin(router, ada)
        answer = await poll(router, job, ada)
        await router.entries(2)
        wrong = ["wrong", "fast", "--config", str(here / "config.yaml")]
        assert await asyncio.to_thread(main, wrong) == 0
        async with Load(router.port, ada) as load:
            await until(lambda: len(load.answered) > 50)
            answered = list(load.answered)

            assert await tandem("backup", backup, "--config", here / "config.yaml") == 0
        assert await tandem("restore", backup, "--config", here / "config.yaml") == 1  # in use
        sessions = {entry["id"]: entry["session"] for entry in read_entries(here / "kept" / "test.db")}

    assert backup.stat().st_mode & 0o777 == 0o600
    assert b"sk-canary" not in backup.read_bytes()
    with tarfile.open(backup) as tar:
        manifest = json.load(tar.extractfile("manifest.json"))
    rows = {member["name"]: member["rows"] for member in manifest["files"]}
    assert rows["tandem.db"]["misjudged"] == rows["responses.db"]["transcripts"] - 1 == rows["jobs.db"]["jobs"] == 1

    assert await tandem("restore", backup, "--config", there / "config.yaml") == 0

    assert (there / "config.yaml").read_text() == CONFIG
    entries = {entry["id"]: entry for entry in read_entries(there / "kept" / "test.db")}
    assert set(answered) <= entries.keys()
    async with running(CONFIG, there) as router:
        found = await call(router.port, f"/v1/responses/{stored.json['id']}", headers=ada)
        assert (found.status, found.json["output"]) == (200, stored.json["output"])
        more = {"model": "auto", "input": "go on", "previous_response_id": stored.json["id"]}
        continued = await call(router.port, "/v1/responses", more, ada)
        assert continued.status == 200
        assert (await call(router.port, f"/v1/responses/{job}", headers=ada)).json["output"] == answer["output"]
        assert (await call(router.port, "/v1/chat/completions", chat())).status == 401
        rows = {entry["id"]: entry for entry in await router.entries(len(entries) + 1)}
        request_id = continued.headers["x-tandem-request-id"]
        assert rows[request_id]["session"] == sessions[stored.headers["x-tandem-request-id"]]
        assert (await call(router.port, "/v1/responses", ask(), ada)).json["status"] == "queued"
