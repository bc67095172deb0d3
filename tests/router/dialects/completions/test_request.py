"""Requests of the old text endpoint."""

import pytest

from router.contract.errors import BadRequest
from router.contract.words import Dialect, Feature
from tests.tools.values import make_view


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
