"""Chat requests on their way to another dialect: what is read, and what is refused naming its field."""

import pytest

from router.contract.errors import BadRequest, Misfit
from tests.tools.bridging import ASK, CHAT, MESSAGES, RESPONSES, crossed


@pytest.mark.parametrize("choice", [{"type": "tool", "name": "f"}, {"name": "f"}, "sometimes", {"type": "function"}])
def test_a_choice_of_an_unknown_shape_is_refused_naming_the_field(choice):
    tools = [{"type": "function", "function": {"name": "f"}}]

    with pytest.raises(BadRequest, match="tool_choice"):
        crossed(CHAT, MESSAGES, {"messages": ASK, "tools": tools, "tool_choice": choice})


def test_a_limit_may_be_a_whole_number_with_a_point():
    assert crossed(CHAT, RESPONSES, {"messages": ASK, "max_tokens": 1024.0})[0]["max_output_tokens"] == 1024


def test_a_refusal_of_an_earlier_answer_is_kept_as_its_words():
    body, _ = crossed(CHAT, MESSAGES, {"messages": [*ASK, {"role": "assistant", "content": None, "refusal": "no"}, *ASK]})

    assert body["messages"][1]["content"] == [{"type": "text", "text": "no"}]


@pytest.mark.parametrize("target", [RESPONSES, MESSAGES])
def test_several_answers_at_once_are_refused(target):
    with pytest.raises(Misfit, match="supports only n=1"):
        crossed(CHAT, target, {"messages": [{"role": "user", "content": "x"}], "n": 2})


@pytest.mark.parametrize("target", [RESPONSES, MESSAGES])
def test_a_result_without_its_call_and_an_unknown_role_are_refused_naming_them(target):
    orphan = [{"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "c9", "content": "?"}]

    with pytest.raises(BadRequest, match="c9"):
        crossed(CHAT, target, {"messages": orphan})
    with pytest.raises(BadRequest, match=r"messages\[0\].role"):
        crossed(CHAT, target, {"messages": [{"role": "narrator", "content": "x"}]})
