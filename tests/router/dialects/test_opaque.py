from router.contract.words import Dialect
from router.dialects.opaque import all_keys, without_foreign
from tests.tools.values import make_view

USER = {"role": "user", "content": "x"}


def responses(*items: dict):
    return make_view({"input": [USER, *items, USER]}, Dialect.RESPONSES)


def reasoning(blob: str) -> dict:
    return {"type": "reasoning", "id": f"rs_{blob}", "summary": [], "encrypted_content": blob}


def test_foreign_reasoning_goes_whole_and_what_followed_it_is_unlinked():
    call = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "ok"}
    view = responses(reasoning("mine"), {**call, "call_id": "b"}, {**output, "call_id": "b"}, reasoning("theirs"), call, output)
    mine, theirs = all_keys(view)

    kept = without_foreign(view._replace(origins={mine: "spark", theirs: "sage"}), "spark")

    unlinked = {name: value for name, value in call.items() if name != "id"}
    assert kept == [USER, reasoning("mine"), {**call, "call_id": "b"}, {**output, "call_id": "b"}, unlinked, output, USER]


def test_foreign_thinking_goes_and_a_message_of_nothing_else_with_it():
    thinking = {"type": "thinking", "thinking": "t", "signature": "theirs"}
    only = {"role": "assistant", "content": [thinking]}
    mixed = {"role": "assistant", "content": [thinking, {"type": "text", "text": "a"}]}
    view = make_view({"max_tokens": 9, "messages": [USER, only, USER, mixed, USER]}, Dialect.MESSAGES)
    (key, _) = all_keys(view)

    kept = without_foreign(view._replace(origins={key: "sage"}), "spark")

    assert kept == [USER, USER, {"role": "assistant", "content": [{"type": "text", "text": "a"}]}, USER]


def test_a_chat_hosts_thoughts_are_taken_out_of_their_message():
    view = make_view({"messages": [USER, {"role": "assistant", "content": "a", "reasoning_content": "hm"}, USER]})
    (key,) = all_keys(view)

    assert without_foreign(view._replace(origins={key: "sage"}), "spark") == [USER, {"role": "assistant", "content": "a"}, USER]


def test_what_is_the_targets_own_or_nobodys_stays_untouched():
    view = responses(reasoning("mine"))
    (key,) = all_keys(view)

    assert without_foreign(view._replace(origins={key: "spark"}), "spark") is None
    assert without_foreign(view, "spark") is None
