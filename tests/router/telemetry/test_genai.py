"""The table of names, and the page that documents it."""

import re
from pathlib import Path

import pytest

from router.contract.words import Operation
from router.telemetry import genai

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "metrics.md"


def test_the_reference_lists_every_name_with_its_spans_and_no_other():
    text = PAGE.read_text()
    listed = re.findall(r"^On ([a-z, ]+):\n\n((?:- .+\n)+)", text, re.MULTILINE)
    rows = {name: spans for spans, names in listed for name in re.findall(r"^- `([a-z_.]+)`:", names, re.MULTILINE)}
    events = re.findall(r"^- `(tandem\.[a-z_.]+)` \(`", text, re.MULTILINE)

    assert rows == {known.name: ", ".join(known.spans) for known in genai.ATTRIBUTES}
    assert events == [event.name for event in genai.EVENTS]
    assert genai.CONVENTIONS in text


def test_no_name_is_listed_twice_and_each_begins_as_the_conventions_or_ours_do():
    names = [known.name for known in genai.ATTRIBUTES]

    assert len(set(names)) == len(names)
    assert {name.partition(".")[0] for name in names} == {"error", "gen_ai", "http", "network", "tandem", "url"}


def test_no_attribute_of_the_conventions_that_holds_messages_is_in_the_table():
    assert not [known.name for known in genai.ATTRIBUTES if re.search(r"message|prompt|instructions|tool|content", known.name)]


@pytest.mark.parametrize(
    ("known", "adapter", "name"),
    [
        ("", "openai_http", "openai"),
        ("", "anthropic_http", "anthropic"),
        ("", "simulated", "tandem.simulated"),
        ("azure", "openai_http", "azure.ai.openai"),
        ("bedrock", "litellm", "aws.bedrock"),
        ("gemini", "openai_http", "gcp.gemini"),
        ("cerebras", "openai_http", "cerebras"),
    ],
)
def test_a_provider_has_the_conventions_word_or_the_one_it_is_known_by(known, adapter, name):
    assert genai.name_provider(known, adapter) == name


def test_operations_have_the_conventions_words_where_there_are_some():
    assert genai.name_operation(Operation.CREATE, is_conversation=True) == "chat"
    assert genai.name_operation(Operation.CREATE, is_conversation=False) == "text_completion"
    assert genai.name_operation(Operation.COUNT_TOKENS, is_conversation=True) == "count_tokens"
