"""Every text that a model would read, and no byte of an image."""

import pytest

from router.contract.words import Dialect
from router.sense.texts import texts_of
from tests.tools.values import make_view

URL = "data:image/png;base64," + "A" * 5_000


def texts(body: dict, dialect: Dialect = Dialect.CHAT) -> set[str]:
    return set(texts_of(make_view(body, dialect)))


def test_messages_calls_results_and_tools_are_read_with_the_names_of_their_fields():
    call = {"id": "c", "type": "function", "function": {"name": "write", "arguments": '{"a": 1}'}}
    body = {
        "messages": [
            {"role": "user", "content": "please"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "written"},
        ],
        "tools": [{"type": "function", "function": {"name": "write", "description": "to a file"}}],
    }

    found = texts(body)

    assert {"please", '{"a": 1}', "write", "written", "to a file", "arguments", "description"} <= found
    assert not {"user", "assistant", "tool", "c", "function call"} & found


@pytest.mark.parametrize(
    ("body", "dialect", "text"),
    [
        ({"input": "the input", "instructions": "x"}, Dialect.RESPONSES, "the input"),
        ({"input": "x", "instructions": "the instructions"}, Dialect.RESPONSES, "the instructions"),
        ({"prompt": "the prompt"}, Dialect.COMPLETIONS, "the prompt"),
        (
            {
                "max_tokens": 1,
                "messages": [{"role": "user", "content": "x"}],
                "system": [{"type": "text", "text": "the system"}],
            },
            Dialect.MESSAGES,
            "the system",
        ),
    ],
)
def test_each_dialects_own_fields_are_read(body, dialect, text):
    assert text in texts(body, dialect)


def test_an_image_is_left_out_and_a_plain_address_is_read():
    def with_url(url: str) -> set[str]:
        return texts({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]})

    assert URL not in with_url(URL)
    assert "http://host/a.png" in with_url("http://host/a.png")


def test_long_text_under_another_name_is_read_whole():
    text = "word " * 2_000

    assert text in texts({"messages": [{"role": "user", "content": [{"type": "text", "text": text}]}]})


def test_what_no_model_reads_is_left_out():
    assert texts({"messages": [{"role": "user", "content": "x"}], "user": "me", "metadata": {"a": "b"}}) == {"content", "x"}


def test_a_list_in_a_list_that_is_nested_deeply_ends():
    value: object = "deep inside"
    for _ in range(200):
        value = [value]

    assert "deep inside" in texts({"messages": [{"role": "user", "content": [{"type": "text", "text": value}]}]})
