"""Reasoning in the messages of chat."""

from msgspec.structs import replace

from router.dialects.opaque import all_keys, without_foreign
from tests.tools.values import make_view

USER = {"role": "user", "content": "x"}


def test_a_chat_hosts_thoughts_are_taken_out_of_their_message():
    view = make_view({"messages": [USER, {"role": "assistant", "content": "a", "reasoning_content": "hm"}, USER]})
    (key,) = all_keys(view)

    assert without_foreign(replace(view, origins={key: "sage"}), "spark") == [USER, {"role": "assistant", "content": "a"}, USER]
