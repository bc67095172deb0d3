"""Notations and files of other routers."""

import pytest

from router.config.foreign import find_other_router, find_variable

WRITTEN = [
    "$K1",
    "${K1}",
    "${env:K1}",
    "${K1:-none}",
    "os.environ/K1",
    "{{ env.K1 }}",
    "{{K1}}",
    "%K1%",
    "ENV:K1",
    "env: K1",
    " $K1 ",
]


@pytest.mark.parametrize("written", WRITTEN)
def test_a_variable_in_the_notation_of_another_program_is_found(written):
    assert find_variable(written) == "K1"


@pytest.mark.parametrize("written", ["sk-proj-4f", "caller", "abc", "K1", "$", "${}", "a$K1", "pa$$word"])
def test_a_plain_value_names_no_variable(written):
    assert find_variable(written) == ""


def test_the_bare_name_of_a_key_is_a_variable():
    assert find_variable("OPENAI_API_KEY") == "OPENAI_API_KEY"


def test_a_file_with_tiers_is_ours_whatever_else_it_has():
    assert find_other_router({"tiers": {}, "model_list": []}) is None
    assert find_other_router({"server": {}}) is None
