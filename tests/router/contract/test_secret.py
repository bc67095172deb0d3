"""Whose key is it: references, the caller's own, and variables that no library may find."""

import os

import pytest

from router.contract.keys import make_key
from router.contract.secret import Secret, mask_keys, release_variables, withhold_variables


def test_a_secret_never_prints_its_value(monkeypatch):
    monkeypatch.setenv("SOME_TEST_KEY", "canary")

    printed = [str(Secret(source)) for source in ("env:SOME_TEST_KEY", "canary-literal", "caller")]

    assert printed == ["env:SOME_TEST_KEY", "***", "caller"]
    assert Secret("caller").reveal() == ""


def test_a_withheld_variable_is_found_by_its_secret_and_by_nobody_else(monkeypatch):
    monkeypatch.setenv("WITHHELD_TEST_KEY", "canary")

    withhold_variables(lambda name: name == "WITHHELD_TEST_KEY")

    assert "WITHHELD_TEST_KEY" not in os.environ
    assert Secret("env:WITHHELD_TEST_KEY").reveal() == "canary"


def test_a_variable_that_was_released_and_then_unset_stays_unset(monkeypatch):
    monkeypatch.setenv("RELEASED_TEST_KEY", "canary")
    withhold_variables(lambda name: name == "RELEASED_TEST_KEY")
    release_variables(lambda name: name == "RELEASED_TEST_KEY")
    assert os.environ["RELEASED_TEST_KEY"] == "canary"

    monkeypatch.delenv("RELEASED_TEST_KEY")
    release_variables(lambda name: name == "RELEASED_TEST_KEY")

    assert "RELEASED_TEST_KEY" not in os.environ
    assert Secret("env:RELEASED_TEST_KEY").reveal() == ""


def test_a_key_out_of_the_file_next_to_the_config_counts_where_the_environment_has_none(monkeypatch):
    monkeypatch.delenv("FILE_TEST_KEY", raising=False)
    key = Secret("env:FILE_TEST_KEY", "canary")

    assert (key.reveal(), key.is_from_file) == ("canary", True)
    assert "canary" not in repr(key) + str(key)
    monkeypatch.setenv("FILE_TEST_KEY", "theirs")
    assert (key.reveal(), key.is_from_file) == ("theirs", False)


@pytest.mark.parametrize("pasted", ["sk-proj-4f", "", "AIzaSyCanary0123456789abcdef", " K1", "a b"])
def test_what_can_be_no_variable_after_env_is_not_shown(pasted):
    assert str(Secret(f"env:{pasted}")) == "env:***"


def test_a_variables_name_is_shown():
    assert str(Secret("env:MY_VERY_LONG_PROVIDER_2_API_KEY")) == "env:MY_VERY_LONG_PROVIDER_2_API_KEY"


@pytest.mark.parametrize("text", ["", "auto", "tdm_", "tdm_1a2b3c4d", "no tdm_xyz_key"])
def test_a_text_without_a_key_stays_as_it_is(text):
    assert mask_keys(text) == text


def test_of_a_key_in_a_text_only_the_id_is_left_also_of_one_cut_short_or_in_small_letters():
    key = make_key("1a2b3c4d").text

    assert mask_keys(f"/v1/{key}?k={key[:20]} {key.lower()}") == "/v1/tdm_1a2b3c4d_***?k=tdm_1a2b3c4d_*** tdm_1a2b3c4d_***"
