"""Blocks of settings that rooms are handed as they are."""

from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, ValidationError

from router.contract.block import ELSEWHERE, Block, Stated, settings_in


class Size(Block, frozen=True, rename={"is_large": "large"}):
    calls: Annotated[int, Field(ge=1)]
    is_large: bool = False
    follows: Annotated[int, ELSEWHERE] = 7


@dataclass(frozen=True)
class Waits:
    first: Annotated[float, Field(gt=0)]
    next: float


class Whole(BaseModel):
    size: Size = Size(2)
    sizes: tuple[Size, ...] = ()
    waits: Annotated[dict[str, Any], Stated(Waits)] = Field(default_factory=dict)


def test_a_block_is_made_of_what_a_file_says_by_the_names_in_the_file():
    assert Whole.model_validate({"size": {"calls": 3, "large": True}}).size == Size(3, is_large=True)
    assert Whole(size=Size(5)).size == Size(5)


@pytest.mark.parametrize(
    ("content", "kind", "place"),
    [
        ({"size": {"calls": 0}}, "greater_than_equal", ("size", "calls")),
        ({"size": {}}, "missing", ("size", "calls")),
        ({"size": {"calls": 1, "follows": 1}}, "extra_forbidden", ("size", "follows")),
        ({"size": {"calls": 1, "is_large": True}}, "extra_forbidden", ("size", "is_large")),
        ({"size": 3}, "dict_type", ("size",)),
        ({"sizes": [{"calls": 1}, {"calls": "x"}]}, "int_parsing", ("sizes", 1, "calls")),
        ({"waits": {"first": 0}}, "greater_than", ("waits", "first")),
        ({"waits": {"second": 1}}, "extra_forbidden", ("waits", "second")),
    ],
)
def test_what_does_not_fit_is_an_error_at_its_place(content, kind, place):
    with pytest.raises(ValidationError) as refused:
        Whole.model_validate(content)

    assert [(error["type"], error["loc"]) for error in refused.value.errors()] == [(kind, place)]


def test_of_settings_that_are_only_stated_each_may_be_left_out_or_null():
    assert Whole.model_validate({"waits": {"next": 2, "first": None}}).waits == {"next": 2.0}


def test_a_block_is_written_with_its_names_in_the_file_and_in_the_same_order_each_time():
    assert Whole(size=Size(3)).model_dump_json() == '{"size":{"calls":3,"large":false,"follows":7},"sizes":[],"waits":{}}'


def test_a_field_from_elsewhere_is_no_setting():
    assert list(settings_in(Size)) == ["calls", "large"]
    assert list(settings_in(Waits)) == ["first", "next"]
