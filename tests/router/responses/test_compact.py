"""Our own compaction: what goes to the model, and what comes back to be used as the next input."""

import json

import pytest
from msgspec.structs import replace

from router.contract.errors import UpstreamMalformed
from router.contract.words import Dialect, Operation, TurnKind
from router.responses.compact import ask_for_summary, write_compaction
from router.sessions.turns import read_turn
from tests.tools.values import make_view

CALL = {"type": "function_call", "call_id": "call_1", "name": "ls", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "call_1", "output": "a.py"}


def compacting(*items: dict, **more: object):
    view = make_view({"input": list(items), **more}, Dialect.RESPONSES)
    return ask_for_summary(replace(view, operation=Operation.COMPACT))


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def written(view, *texts: str) -> list[str]:
    content = [{"type": "output_text", "text": text} for text in texts]
    answer = {"output": [{"type": "message", "role": "assistant", "content": content}], "usage": None}
    body = json.loads(write_compaction(view, json.dumps(answer).encode(), "spark"))
    return [item["content"][0]["text"] for item in body["output"]]


def test_the_request_for_a_summary_is_a_compaction_that_streams_nothing_and_has_no_tools():
    view = compacting(user("go"), stream=True, tools=[{"type": "function", "name": "ls"}], tool_choice="required")

    assert read_turn(view).kind is TurnKind.COMPACTION
    assert (view.operation, view.is_streaming) == (Operation.CREATE, False)
    assert set(view.body) == {"model", "input", "store", "stream"}
    assert json.loads(view.raw) == view.body


def test_a_call_without_its_result_is_left_out_and_one_with_it_stays():
    view = compacting(user("go"), CALL, RESULT, {**CALL, "call_id": "call_2"})

    assert view.body["input"][1:-1] == [CALL, RESULT]


def test_the_newest_words_are_kept_when_all_are_too_long():
    view = compacting(user("old " * 30_000), user("middle " * 20_000), user("new"))

    texts = written(view, "summary")

    assert texts[1] == "new"
    assert sum(map(len, texts[:-1])) <= 80_000
    assert texts[0].startswith("middle")


def test_an_earlier_summary_is_not_kept_beside_the_new_one():
    once = written(compacting(user("write a parser")), "first summary")

    again = written(compacting(*map(user, once)), "second summary")

    assert again[0] == "write a parser"
    assert len(again) == 2
    assert again[1].endswith("second summary")


@pytest.mark.parametrize("texts", [(), ("  ",)])
def test_no_summary_is_the_targets_failure(texts):
    with pytest.raises(UpstreamMalformed, match="did not write a summary"):
        written(compacting(user("go")), *texts)
