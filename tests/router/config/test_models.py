"""The settings themselves: what they take, and that each says what it does."""

import inspect
from typing import get_args

import pytest
from pydantic import BaseModel, ValidationError

from docs.generate import field_notes
from router.config.models import OPTIONS, OPTIONS_ALIAS, Config, LedgerSettings, TargetSettings


def models_in(model: type[BaseModel]) -> set[type[BaseModel]]:
    found = {model}
    for field in model.model_fields.values():
        for inner in (field.annotation, *get_args(field.annotation)):
            if inspect.isclass(inner) and issubclass(inner, BaseModel):
                found |= models_in(inner)
    return found


def test_every_block_is_frozen_takes_no_unknown_key_and_explains_each_setting(subtests):
    for model in sorted(models_in(Config), key=lambda model: model.__name__):
        with subtests.test(model=model):
            assert model.model_config["frozen"]
            assert model.model_config["extra"] == "forbid"
            assert set(field_notes(model)) == set(model.model_fields)


@pytest.mark.parametrize("name", ["a", "gpt-5.5", "A_b.c-9", "x" * 64])
def test_a_target_may_have_a_name_of_letters_digits_and_three_marks(name):
    assert TargetSettings(name=name).name == name


@pytest.mark.parametrize("name", ["", "a b", "-a", ".a", "x" * 65, "a\n", "ä", "a/b"])
def test_a_name_that_a_header_or_a_path_would_break_on_is_refused(name):
    with pytest.raises(ValidationError, match="must be 1 to 64 letters, digits"):
        TargetSettings(name=name)


@pytest.mark.parametrize("url", ["ftp://x", "http://u:p@x/v1", "http://x/v1?key=1", "http://x/v1#a", "x"])
def test_an_address_is_a_plain_http_url(url):
    with pytest.raises(ValidationError, match="base_url"):
        TargetSettings(name="a", base_url=url)


def test_options_have_one_name_and_one_older_name():
    assert {OPTIONS, OPTIONS_ALIAS} <= set(TargetSettings.model_fields)


def test_a_ledger_may_have_no_path():
    assert LedgerSettings(path=None).path is None
