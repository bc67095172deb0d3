"""Requests over every bridge: what must survive does, what cannot is named, what would mean something else is refused."""

import json

import pytest

from router.contract.errors import TooDeep
from router.dialects.translate.bridges import BRIDGES
from tests.tools.bridging import ASK, CHAT, MESSAGES, RESPONSES, claude, crossed

DEEP: dict = {}
for _ in range(300):
    DEEP = {"a": DEEP}


@pytest.mark.parametrize(("caller", "target"), list(BRIDGES))
def test_every_captured_request_crosses_with_its_words_and_calls(shared, caller, target):
    """What eleven real clients sent reaches the other side: each text of the person's, each call beside its result."""
    paths = {CHAT: "chat/completions", RESPONSES: "/responses", MESSAGES: "/v1/messages"}
    seen = 0
    for file in sorted((shared / "wire").glob("*/*.json")):
        capture = json.loads(file.read_text())
        body = capture.get("body")
        path = capture.get("path", "").partition("?")[0]
        if capture.get("method") != "POST" or not path.endswith(paths[caller]) or not isinstance(body, dict):
            continue
        if body.get("previous_response_id"):
            continue
        seen += 1
        written, _ = crossed(caller, target, {**body, "model": "auto"})
        typed = capture.get("user_text")
        if typed:
            assert json.dumps(typed)[1:-1] in json.dumps(written), file.name
        calls = json.dumps(body).count('"tool_use"') + json.dumps(body).count('"function_call"')
        if calls and caller is not CHAT:
            assert json.dumps(written).count('"tool_use"' if target is MESSAGES else '"arguments"') >= 1, file.name

    assert seen >= 10


@pytest.mark.parametrize(
    ("caller", "body"),
    [
        (
            MESSAGES,
            claude(*ASK, {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": DEEP}]}),
        ),
        (RESPONSES, {"input": [{"type": "shell_call", "call_id": "c", "action": DEEP}]}),
    ],
)
def test_what_is_nested_too_deeply_to_be_written_is_refused(caller, body):
    with pytest.raises(TooDeep):
        crossed(caller, CHAT, body)
