"""What a group needs before its first worker, and what it says where that is missing."""

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import SIMULATED
from tests.router.cli.workers.group import group_of
from tests.tools.http import call, chat
from tests.tools.running import read_entries, two_targets
from tests.tools.upstream import Upstream, answer_json
from tests.tools.valkey import find_server
from tests.tools.waiting import until


def serve(folder, *arguments: str, **variables: str) -> tuple[int, str]:
    (folder / "config.yaml").write_text(SIMULATED)
    asked = ["serve", "--config", folder / "config.yaml", "--port", "0", "--workers", "2", *arguments]
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), **variables}
    done = subprocess.run([sys.executable, "-m", "router.cli", *asked], env=environment, capture_output=True, text=True)
    return done.returncode, done.stderr


def test_without_a_server_on_this_machine_several_workers_are_refused(tmp_path):
    code, words = serve(tmp_path, PATH="/nonexistent")

    assert code == 2
    assert words.splitlines()[-1] == "  hint: install valkey-server, or set shared.valkey.url, or use one worker"
    assert not (tmp_path / "test.db").exists()


@pytest.mark.skipif(find_server() is None, reason="no Valkey or Redis server on this machine")
async def test_a_second_group_gets_neither_the_address_nor_the_ledger_and_every_row_is_kept(tmp_path):
    async with group_of(2, tmp_path, SIMULATED) as group:
        taken = serve(tmp_path, "--port", str(group.port))
        used = serve(tmp_path)
        for _ in range(20):
            await call(group.port, "/v1/chat/completions", chat())
        group.process.terminate()
        await group.process.wait()

        assert taken == (2, taken[1])
        assert taken[1].startswith(f"a Tandem router is already running at http://127.0.0.1:{group.port}")
        assert used[0] == 2
        assert f"test.db is in use by another Tandem router (http://127.0.0.1:{group.port}, pid {group.process.pid}" in used[1]
        assert len(read_entries(tmp_path / "test.db")) == 20


@pytest.mark.skipif(find_server() is None, reason="neither valkey-server nor redis-server is installed")
async def test_a_trouble_that_all_workers_see_is_reported_once(tmp_path, upstream, other_upstream):
    refusal = answer_json({"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}, 401)
    upstream.scripts = other_upstream.scripts = [refusal]
    receiver = Upstream()
    await receiver.start()
    receiver.scripts = [answer_json({"ok": True})]
    config = two_targets(upstream.base_url, other_upstream.base_url, extra="alerts: {webhook: 'env:HOOK'}")
    async with group_of(2, tmp_path, config, "--log", "json", environment={"HOOK": f"{receiver.base_url}/hook"}) as group:

        async def report(model: str, target: str) -> None:
            """Both workers see the trouble, and then it is reported: a second report of an earlier one would come before."""

            async def is_seen_by_both() -> bool:
                await call(group.port, "/v1/chat/completions", chat(model=model))
                lines = [json.loads(line) for line in group.log.splitlines() if "target.misconfigured" in line]
                return {line["worker"] for line in lines if line["target"] == target} == {1, 2}

            await until(is_seen_by_both)
            await until(lambda: any(target in json.dumps(seen.json) for seen in receiver.seen))

        await report("fast", "spark")
        await report("deep", "sage")

        assert [(seen.json["kind"], seen.json["subject"]) for seen in receiver.seen] == [
            ("key_refused", "spark"),
            ("key_refused", "sage"),
        ]
    await receiver.stop()
