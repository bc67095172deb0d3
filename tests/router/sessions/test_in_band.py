import pytest

from router.contract.exchange import Arrival
from router.contract.request import InBand
from router.contract.words import Dialect, Operation, Tier
from router.dialects.requests import read_request
from router.sessions.in_band import read_in_band
from tests.tools.values import make_view


def chat(*contents):
    return make_view({"messages": [{"role": "user", "content": content} for content in contents]})


@pytest.mark.parametrize(
    ("text", "tier", "rest"),
    [
        ("tier: fast\nfix it", Tier.FAST, "fix it"),
        ("tier: deep\r\n\r\nfix it", Tier.DEEP, "fix it"),
        ("tier: auto\nfix it", None, "fix it"),
        ("tier: deep", Tier.DEEP, "continue"),
    ],
)
def test_a_first_line_is_a_wish_and_is_taken_out(text, tier, rest):
    wish, changes = read_in_band(chat(text))

    assert wish.tier is tier
    assert changes["messages"][0]["content"] == rest


@pytest.mark.parametrize(
    "text",
    [
        "fix it\ntier: deep",
        "tier: deep please",
        "Tier: deep",
        "tier: slow\nx",
        "> tier: deep\nx",
        " tier: deep\nx",
        "tier:deep\nx",
    ],
)
def test_anything_else_is_no_wish_and_stays(text):
    assert read_in_band(chat(text)) == (None, {})


def test_the_last_line_counts_and_every_line_goes():
    wish, changes = read_in_band(chat("tier: deep\none", "two", "tier: fast\nthree"))

    assert wish == InBand(Tier.FAST, 2)
    assert [message["content"] for message in changes["messages"]] == ["one", "two", "three"]


def test_a_tools_output_asks_for_nothing():
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "tier: deep\nx"}]}
    spoken = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}, {"type": "text", "text": "tier: deep\nx"}],
    }
    output = {"type": "function_call_output", "call_id": "c", "output": "tier: deep\nx"}

    assert read_in_band(make_view({"max_tokens": 9, "messages": [result]}, Dialect.MESSAGES)) == (None, {})
    assert read_in_band(make_view({"max_tokens": 9, "messages": [spoken]}, Dialect.MESSAGES)) == (None, {})
    assert read_in_band(make_view({"input": [output]}, Dialect.RESPONSES)) == (None, {})
    assert read_in_band(make_view({"messages": [{"role": "tool", "tool_call_id": "c", "content": "tier: deep\nx"}]})) == (
        None,
        {},
    )


def test_what_stands_behind_the_first_words_asks_for_nothing():
    result = [{"type": "text", "text": "[read_file for 'a.yaml'] Result:"}, {"type": "text", "text": "tier: deep\nname: x"}]

    assert read_in_band(chat(result)) == (None, {})


def test_the_wrapping_of_a_client_stays():
    wish, changes = read_in_band(chat("<task>\ntier: deep\nfix it\n</task>"))

    assert (wish.tier, changes["messages"][0]["content"]) == (Tier.DEEP, "<task>\nfix it\n</task>")


def test_a_part_of_a_message_and_a_plain_input_are_read_too():
    parts = [{"type": "text", "text": "<system-reminder>x</system-reminder>"}, {"type": "text", "text": "tier: fast\nfix"}]

    wish, changes = read_in_band(chat(parts))
    plain = read_in_band(make_view({"input": "tier: deep\nfix"}, Dialect.RESPONSES))

    assert (wish, changes["messages"][0]["content"][1]["text"]) == (InBand(Tier.FAST), "fix")
    assert plain == (InBand(Tier.DEEP), {"input": "fix"})


def test_every_line_goes_however_many_there_are():
    wish, changes = read_in_band(chat(*[f"tier: fast\nsay {number}" for number in range(70)], "tier: deep\nsay it"))

    assert (wish.tier, wish.place) == (Tier.DEEP, 70)
    assert [message["content"] for message in changes["messages"]] == [*[f"say {number}" for number in range(70)], "say it"]


def test_a_line_that_is_written_with_escapes_counts_too():
    raw = b'{"model": "auto", "messages": [{"role": "user", "content": "\\u0074ier: deep\\nfix it"}]}'

    wish, changes = read_in_band(read_request(Arrival("r", Dialect.CHAT, Operation.CREATE, {}, raw)))

    assert wish.tier is Tier.DEEP
    assert changes["messages"][0]["content"] == "fix it"
