"""Answers of the old text endpoint as they are written here."""

import pytest

from router.contract.errors import BadRequest
from router.contract.words import Dialect, Feature
from router.dialects.completions_answer import CompletionsComposer
from router.dialects.composer import Finish
from tests.router.dialects.answers import written
from tests.tools.values import make_view


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


@pytest.mark.parametrize(("prompt", "texts"), [("def f(", ["def f("]), (["def f(", "def g("], ["def f(", "def g("])])
def test_a_prompt_is_code_and_nobodys_words(prompt, texts):
    view = make_view({"prompt": prompt}, Dialect.COMPLETIONS)

    assert [message.texts[0] for message in view.conversation] == texts
    assert {message.role for message in view.conversation} == {"code"}
    assert Feature.COMPLETIONS in view.needs


@pytest.mark.parametrize("prompt", [None, "", [], 7])
def test_a_request_without_a_prompt_is_refused(prompt):
    with pytest.raises(BadRequest) as caught:
        make_view({"prompt": prompt}, Dialect.COMPLETIONS)

    assert caught.value.param == "prompt"
