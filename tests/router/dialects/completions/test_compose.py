"""Answers of the old text endpoint as they are written here."""

from router.dialects.completions.compose import CompletionsComposer
from router.dialects.composer import Finish
from tests.router.dialects.answers import written


def test_a_whole_answer_fits_the_sdks_type_and_is_the_text_alone(sdk):
    events, body = written(CompletionsComposer)

    whole = sdk.Completion.model_validate(body)
    assert whole.choices[0].text == "ab"
    assert whole.usage.prompt_tokens == 11
    assert "".join(choice["text"] for event in events for choice in event["choices"]) == "ab"
    assert "patch" not in str(events)


def test_an_answer_cut_by_its_limit_says_so():
    events, whole = written(CompletionsComposer, Finish.LENGTH)

    assert whole["choices"][0]["finish_reason"] == "length"
    assert [choice["finish_reason"] for event in events for choice in event["choices"]] == [None, None, "length"]
