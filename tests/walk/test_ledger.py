"""What a request leaves in the ledger, and who may read it."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

from router.contract.keys import make_key
from router.stores.sqlite.migrate import UPKEEP
from tests.conftest import SIMULATED
from tests.tools.http import call, chat
from tests.tools.running import running, two_targets
from tests.tools.upstream import (
    CHAT_ANSWER,
    answer_json,
)


async def test_no_text_of_a_prompt_or_answer_is_on_disk_unless_asked_for(start, upstream, tmp_path):
    canary = "canary-7f3a9c"
    upstream.scripts = [answer_json({**CHAT_ANSWER, "id": canary})]
    quiet, wordy = tmp_path / "quiet", tmp_path / "wordy"
    quiet.mkdir(), wordy.mkdir()
    silent = await start(two_targets(upstream.base_url, upstream.base_url), quiet)
    keeping = await start(
        two_targets(upstream.base_url, upstream.base_url).replace("{path: test.db}", "{path: test.db, keep_text: true}"), wordy
    )

    for tandem in (silent, keeping):
        await call(tandem.port, "/v1/chat/completions", chat(f"rename {canary}"), {"authorization": f"Bearer {canary}"})
        await tandem.entries()

    on_disk = b"".join(path.read_bytes() for path in quiet.iterdir())
    assert canary.encode() not in on_disk
    (row,) = await keeping.entries()
    assert canary in row["prompt_text"]
    assert canary in row["answer_text"]


async def test_ledger_files_are_for_their_owner_alone(simulated):
    await call(simulated.port, "/v1/chat/completions", chat())
    await simulated.entries()

    folder = simulated.loaded.ledger_path.parent
    assert {path.stat().st_mode & 0o777 for path in folder.glob("test.db*")} == {0o600}


async def test_every_admitted_request_has_one_entry_and_its_decision_is_found_by_id(simulated):
    reply = await call(simulated.port, "/v1/chat/completions", chat())
    await call(simulated.port, "/v1/chat/completions", {"model": "auto"})
    await call(simulated.port, "/v1/chat/completions", chat(), {"origin": "http://evil.example"})

    entries = await simulated.entries(2)
    found = await call(simulated.port, f"/tandem/decisions/{reply.headers['x-tandem-request-id']}")

    assert [entry["outcome"] for entry in entries] == ["SERVED", "REFUSED"]
    assert found.json["tier"] == "fast"
    assert found.json["served_by"] == "simulated-fast"
    assert found.json["person_text"] == chat()["messages"][0]["content"]
    assert (await call(simulated.port, "/tandem/decisions/req_nobody")).status == 404


async def test_a_decision_is_found_in_the_file_by_a_router_that_did_not_make_it(start, tmp_path):
    async with running(SIMULATED, tmp_path) as first:
        reply = await call(first.port, "/v1/chat/completions", chat())
    second = await start(SIMULATED)

    found = await call(second.port, f"/tandem/decisions/{reply.headers['x-tandem-request-id']}")

    assert found.json["tier"] == "fast"
    assert found.json["person_text"] is None


LEDGER_PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "ledger.md"


async def test_the_page_of_the_ledger_shows_every_column_of_its_file(simulated):
    page = LEDGER_PAGE.read_text()
    entries, _, others = page.partition("## Other tables")
    shown = {"entries": re.findall(r"^- `(\w+)`", entries.partition("## `decision`")[0], re.MULTILINE)}
    shown |= {
        row[1]: re.findall(r"`(\w+)`", row[2]) for row in re.finditer(r"^- `(\w+)`: .*?: ([^:]+)\.$", others, re.MULTILINE)
    }
    shown["days"] = [*shown["hours"], *shown["days"]]

    with closing(sqlite3.connect(simulated.loaded.ledger_path)) as written:
        tables = [name for (name,) in written.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = {table: [row[1] for row in written.execute(f"PRAGMA table_info({table})")] for table in tables}

    assert {table: sorted(names) for table, names in shown.items() if table != UPKEEP} == {
        table: sorted(names) for table, names in found.items() if table != UPKEEP
    }


async def test_a_row_names_the_key_by_its_id_and_has_none_where_callers_need_no_key(start, tmp_path):
    key = make_key()
    with_keys, without = tmp_path / "with", tmp_path / "without"
    with_keys.mkdir(), without.mkdir()
    keys = with_keys / "keys.yaml"
    keys.write_text(
        f'callers: {{ada: {{keys: [{{id: "{key.id}", sha256: {key.digest.hex()}, created: 2026-11-01T10:00:00Z}}]}}}}'
    )
    keys.chmod(0o600)
    known = await start(f"{SIMULATED}keys: {{file: keys.yaml}}\n", with_keys)
    anyone = await start(SIMULATED, without)

    for tandem in (known, anyone):
        await call(tandem.port, "/v1/chat/completions", chat(), {"authorization": f"Bearer {key.text}"})

    ((of_ada,), (of_anyone,)) = await known.entries(), await anyone.entries()
    assert (of_ada["caller"], of_ada["key"]) == ("ada", key.id)
    assert (of_anyone["caller"], of_anyone["key"]) == ("local", None)
    secret = key.text.rpartition(f"{key.id}_")[2].encode()
    assert not any(secret in path.read_bytes() for folder in (with_keys, without) for path in folder.iterdir())
