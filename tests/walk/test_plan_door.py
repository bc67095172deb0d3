"""What a client asks of its plan besides turns: counts of tokens, and the list of its models."""

import asyncio

import pytest

from tests.tools.http import call
from tests.tools.keyed import KEYS, write_keys
from tests.tools.logins import chatgpt_login, claude_login
from tests.tools.plans import config_of, shown_to
from tests.tools.upstream import answer_json
from tests.tools.waiting import later

COUNT = "/v1/messages/count_tokens"
ASKED = {"model": "claude-opus-5-5", "messages": [{"role": "user", "content": "hi"}]}
COUNTED = {"input_tokens": 4321}


async def test_a_count_of_a_plan_session_is_asked_of_the_plan(start, vendors):
    vendors["claude"].scripts = [answer_json(COUNTED)]
    tandem = await start(config_of(vendors))

    reply = await call(tandem.port, COUNT, ASKED, claude_login())

    assert (reply.status, reply.json, reply.headers["x-tandem-target"]) == (200, COUNTED, "claude")
    (seen,) = vendors["claude"].seen
    assert seen.path.partition("?")[0] == COUNT
    assert seen.headers["authorization"] == claude_login()["authorization"]
    assert [name for name, server in vendors.items() if server.seen] == ["claude"]


@pytest.mark.parametrize("headers", [{}, {"x-api-key": "sk-ant-api03-key-of-ada"}, claude_login() | {"x-tandem-tier": "fast"}])
async def test_a_count_without_a_login_or_for_another_tier_is_not(start, vendors, headers):
    tandem = await start(config_of(vendors, ("claude", "spare")))

    reply = await call(tandem.port, COUNT, ASKED, headers)

    assert reply.status == 200
    assert not vendors["claude"].seen


async def test_a_plan_that_cannot_count_leaves_it_to_the_router(start, vendors):
    vendors["claude"].scripts = [answer_json({"error": {"message": "down"}}, 503)]
    tandem = await start(config_of(vendors, ("claude",)))

    reply = await call(tandem.port, COUNT, ASKED, claude_login())

    assert (reply.status, reply.headers["x-tandem-target"]) == (200, "spark")
    assert reply.json["input_tokens"] > 0
    assert "sk-ant-oat01" not in shown_to(vendors["spark"])


CODEX = {"originator": "codex_cli_rs", "version": "0.169.0", "user-agent": "codex_cli_rs/0.169.0"}
MODELS = "/v1/models?client_version=0.169.0"
THEIRS = [
    {"slug": "gpt-6.1-luna", "visibility": "list", "priority": 9, "base_instructions": "be small", "use_responses_lite": True},
    {
        "slug": "gpt-6.1-sol",
        "visibility": "list",
        "priority": 2,
        "base_instructions": "be good",
        "use_responses_lite": True,
        "upgrade": {"id": "x"},
        "context_window": 272000,
        "apply_patch_tool_type": "freeform",
        "nobody_knows": [1.5],
    },
    {"slug": "gpt-hidden", "visibility": "hide", "priority": 1},
]
"""Not in the order of their priority."""


def say_models(*entries, status=200):
    return answer_json({"models": list(entries)}, status, headers={"etag": 'W/"theirs"'})


async def test_a_plans_own_models_are_listed_as_they_are_before_ours(start, vendors):
    vendors["chatgpt"].scripts = [say_models(*THEIRS)]
    tandem = await start(config_of(vendors))

    reply = await call(tandem.port, MODELS, headers=chatgpt_login() | CODEX)

    entries = reply.json["models"]
    assert (reply.status, reply.headers["etag"], entries[:3]) == (200, 'W/"theirs"', THEIRS)
    assert [(entry["slug"], entry["priority"]) for entry in entries[3:]] == [("auto", 10), ("fast", 11), ("deep", 12)]
    assert {entry["base_instructions"] for entry in entries[3:]} == {"be good"}
    assert [(entry["use_responses_lite"], entry["upgrade"]) for entry in entries[3:]] == [(True, None)] * 3
    (seen,) = vendors["chatgpt"].seen
    assert (seen.method, seen.path) == ("GET", MODELS)
    own = chatgpt_login() | CODEX
    assert {name: seen.headers.get(name) for name in own} == own
    assert [name for name, server in vendors.items() if server.seen] == ["chatgpt"]


@pytest.mark.parametrize(
    "headers",
    [{}, claude_login(), {"authorization": "Bearer sk-proj-0123456789"}, {"chatgpt-account-id": "acct-1"}],
    ids=["nothing", "another login", "an API key", "an account without a token"],
)
async def test_who_has_no_login_for_the_plan_sees_our_list_alone(start, vendors, headers):
    tandem = await start(config_of(vendors))

    reply = await call(tandem.port, MODELS, headers=headers)

    assert (reply.status, reply.json, reply.headers["etag"]) == (200, {"models": []}, 'W/"tandem"')
    assert not any(server.seen for server in vendors.values())


@pytest.mark.parametrize(
    "script",
    [
        say_models(*THEIRS, status=500),
        say_models(status=401),
        answer_json({"models": {"a": 1}}),
        answer_json(["models"]),
        answer_json({"models": [1, None]}),
        say_models({"slug": "x" * (5 << 20), "visibility": "list"}),
    ],
    ids=["500", "401", "an object", "a list", "no entries", "too long"],
)
async def test_a_plan_that_lists_nothing_sound_leaves_our_list(start, vendors, script):
    vendors["chatgpt"].scripts = [script]
    tandem = await start(config_of(vendors))

    reply = await call(tandem.port, MODELS, headers=chatgpt_login())

    assert (reply.status, reply.json, reply.headers["etag"]) == (200, {"models": []}, 'W/"tandem"')


async def test_a_plan_that_never_answers_holds_its_list_up_for_seconds_and_not_for_ever(start, vendors):
    async def say_nothing(wire, seen):
        await asyncio.Event().wait()

    vendors["chatgpt"].scripts = [say_nothing]
    tandem = await start(config_of(vendors))

    reply = await call(tandem.port, MODELS, headers=chatgpt_login())

    assert (reply.status, reply.json) == (200, {"models": []})
    await vendors["chatgpt"].seen[0].left.wait()


async def test_neither_a_list_nor_a_count_leaves_a_login_or_an_account_in_a_log_or_file(start, vendors, capfd):
    vendors["chatgpt"].scripts = [say_models(*THEIRS), say_models(status=401)]
    vendors["claude"].scripts = [answer_json(COUNTED), answer_json({"error": {"message": "expired"}}, 401)]
    tandem = await start(config_of(vendors))
    for _ in range(2):
        await call(tandem.port, MODELS, headers=chatgpt_login())
        await call(tandem.port, COUNT, ASKED, claude_login())
    await tandem.entries(2)

    secrets = [value.split()[-1] for value in (chatgpt_login() | {"claude": claude_login()["authorization"]}).values()]
    kept = "".join(path.read_bytes().decode("latin-1") for path in tandem.loaded.folder.rglob("*") if path.is_file())
    shown = kept + "".join(capfd.readouterr()) + str((await call(tandem.port, "/metrics")).body)
    assert len(secrets) == 3
    assert [secret for secret in secrets if secret in shown] == []


async def test_a_list_is_asked_of_a_plan_with_the_login_and_not_with_the_key_of_the_router(start, vendors, tmp_path):
    vendors["chatgpt"].scripts = [say_models(*THEIRS)]
    keys = write_keys(tmp_path, ada="", bob="tiers: [fast]")
    tandem = await start(KEYS + config_of(vendors))

    async def ask(who):
        return await call(tandem.port, MODELS, headers=chatgpt_login(who) | {"x-tandem-key": keys[who].text})

    listed, not_for_bob = await ask("ada"), await ask("bob")

    assert len(listed.json["models"]) == 6
    assert not_for_bob.json["models"] == []
    assert len(vendors["chatgpt"].seen) == 1
    assert keys["ada"].text not in shown_to(vendors["chatgpt"])


async def test_lists_for_plans_give_their_slot_back_and_are_refused_without_one(start, vendors):
    begun, hold = asyncio.Event(), asyncio.Event()

    async def answer_late(wire, seen):
        begun.set()
        await hold.wait()
        await say_models(*THEIRS)(wire, seen)

    vendors["chatgpt"].scripts = [answer_late]
    tandem = await start("limits: {max_in_flight: 1}\n" + config_of(vendors))
    first = later(call(tandem.port, MODELS, headers=chatgpt_login()))
    await begun.wait()

    second = await call(tandem.port, MODELS, headers=chatgpt_login())
    hold.set()

    assert ((await first).status, second.status) == (200, 503)
    assert (await call(tandem.port, MODELS, headers=chatgpt_login())).status == 200
