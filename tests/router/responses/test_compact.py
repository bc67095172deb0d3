"""Our own compaction: what goes to the model, and what comes back to be used as the next input."""

import json

import pytest

from router.contract.errors import BadRequest, UpstreamMalformed
from router.contract.words import Dialect, Operation, TurnKind
from router.responses.compact import write_compaction
from router.sessions.turns import read_turn
from tests.router.responses.kept import restore
from tests.tools.values import make_view

CALL = {"type": "function_call", "call_id": "call_1", "name": "ls", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "call_1", "output": "a.py"}


async def compacting(*items: dict, **more: object):
    return await restore(make_view({"input": list(items), **more}, Dialect.RESPONSES, operation=Operation.COMPACT))


def user(text: str) -> dict:
    return {"role": "user", "content": text}


async def written(view, *texts: str) -> list[str]:
    content = [{"type": "output_text", "text": text} for text in texts]
    answer = {"output": [{"type": "message", "role": "assistant", "content": content}], "usage": None}
    body = json.loads(write_compaction(view, json.dumps(answer).encode(), "spark"))
    return [message["content"][0]["text"] for message in await reopened(body["output"])]


async def reopened(output: list[dict]) -> list[dict]:
    """The items of a compaction as a target is given them when they come back."""
    return (await restore(make_view({"input": output}, Dialect.RESPONSES))).body["input"]


async def test_the_request_for_a_summary_is_a_compaction_that_streams_nothing_and_has_no_tools():
    view = await compacting(user("go"), stream=True, tools=[{"type": "function", "name": "ls"}], tool_choice="required")

    assert read_turn(view).kind is TurnKind.COMPACTION
    assert (view.operation, view.is_streaming) == (Operation.CREATE, False)
    assert set(view.body) == {"model", "input", "store", "stream"}
    assert json.loads(view.raw) == view.body


async def test_a_call_without_its_result_is_left_out_and_one_with_it_stays():
    view = await compacting(user("go"), CALL, RESULT, {**CALL, "call_id": "call_2"})

    assert view.body["input"][1:-1] == [CALL, RESULT]


async def test_the_newest_words_are_kept_when_all_are_too_long():
    view = await compacting(user("old " * 30_000), user("middle " * 20_000), user("new"))

    texts = await written(view, "summary")

    assert texts[1] == "new"
    assert sum(map(len, texts[:-1])) <= 80_000
    assert texts[0].startswith("middle")


async def test_an_earlier_summary_is_not_kept_beside_the_new_one():
    once = await written(await compacting(user("write a parser")), "first summary")

    again = await written(await compacting(*map(user, once)), "second summary")

    assert again[0] == "write a parser"
    assert len(again) == 2
    assert again[1].endswith("second summary")


@pytest.mark.parametrize("texts", [(), ("  ",)])
async def test_no_summary_is_the_targets_failure(texts):
    with pytest.raises(UpstreamMalformed, match="did not write a summary"):
        await written(await compacting(user("go")), *texts)


def compaction_of(view) -> list[dict]:
    answer = {"output": [{"type": "message", "content": [{"type": "output_text", "text": "All is done but ß."}]}]}
    return json.loads(write_compaction(view, json.dumps(answer).encode(), "spark"))["output"]


async def test_the_summary_is_in_a_compaction_item_that_the_sdk_takes(sdk):
    said, kept = compaction_of(await compacting(user("write a parser")))

    sdk.responses.ResponseCompactionItem.model_validate(kept)
    assert said["content"][0]["text"] == "write a parser"
    assert (kept["type"], kept["id"].startswith("cmp_")) == ("compaction", True)


async def test_a_summary_that_comes_back_is_read_as_words_and_everything_else_stays():
    output = compaction_of(await compacting(user("write a parser")))
    hosts = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"}
    view = make_view({"input": [*output, hosts, user("go on")], "store": False}, Dialect.RESPONSES)

    opened = await restore(view)

    said, summary, left, last = opened.body["input"]
    assert (said, left, last) == (output[0], hosts, user("go on"))
    assert summary["role"] == "user"
    assert summary["content"][0]["text"].startswith("Another language model")
    assert summary["content"][0]["text"].endswith("All is done but ß.")
    assert json.loads(opened.raw) == opened.body
    assert read_turn(opened).kind is not TurnKind.COMPACTION


async def test_a_request_without_summaries_of_ours_is_not_written_anew():
    view = make_view({"input": [{"type": "compaction", "encrypted_content": "gAAAA"}, user("go on")]}, Dialect.RESPONSES)

    assert await restore(view) is view


@pytest.mark.parametrize("end", ["!!!", "", "/w=="])
async def test_a_summary_that_was_changed_on_its_way_is_refused_naming_its_item(end):
    view = make_view({"input": [user("x"), {"type": "compaction", "encrypted_content": f"tandem~~{end}"}]}, Dialect.RESPONSES)

    with pytest.raises(BadRequest) as caught:
        await restore(view)

    assert caught.value.param == "input[1].encrypted_content"


async def test_a_hosts_own_summary_is_kept_in_its_place_because_the_new_one_may_not_hold_it():
    hosts = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"}

    output = compaction_of(await compacting(user("one"), hosts, user("two")))

    assert [item["type"] for item in output] == ["message", "compaction", "message", "compaction"]
    assert output[1] == hosts


@pytest.mark.parametrize("kind", ["function_call", "function_call_output", "custom_tool_call", "shell_call_output", "message"])
@pytest.mark.parametrize("odd", [[], {}, 5, True])
async def test_a_call_id_of_another_type_is_refused_naming_its_field(kind, odd):
    with pytest.raises(BadRequest) as caught:
        await compacting(user("x"), {"type": kind, "call_id": odd, "role": "user", "output": "x", "content": "x"})

    assert caught.value.param == "input[1].call_id"


async def test_calls_of_every_kind_without_a_result_are_left_out_of_what_is_summed_up():
    calls = [
        {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls"]}},
        {"type": "local_shell_call", "id": "lsh_2", "call_id": "c2", "action": {"type": "exec", "command": ["ls"], "env": {}}},
        {"type": "apply_patch_call", "call_id": "c3", "operation": {"type": "delete_file", "path": "a"}},
    ]
    output = {"type": "local_shell_call_output", "id": "c2", "output": "x"}

    view = await compacting(user("x"), *calls, output)

    assert [item.get("call_id") or item.get("id") for item in view.body["input"]] == [None, "c2", "c2", None]
