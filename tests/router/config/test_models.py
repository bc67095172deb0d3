"""The settings themselves: what they take, and that each says what it does."""

import inspect
from typing import get_args

from pydantic import BaseModel

from docs.generate import field_notes
from router.config.models import Config, LedgerSettings


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


def test_a_ledger_may_have_no_path():
    assert LedgerSettings(path=None).path is None
