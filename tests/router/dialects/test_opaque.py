"""Whose hidden state goes where."""

from msgspec.structs import replace

from router.contract.words import Dialect
from router.dialects.opaque import all_keys, is_foreign, keys_for, keys_of, refused_by, without_foreign
from tests.tools.values import make_view

USER = {"role": "user", "content": "x"}


def responses(*items: dict):
    return make_view({"input": [USER, *items, USER]}, Dialect.RESPONSES)


def reasoning(blob: str) -> dict:
    return {"type": "reasoning", "id": f"rs_{blob}", "summary": [], "encrypted_content": blob}


def test_what_is_the_targets_own_or_nobodys_stays_untouched():
    view = responses(reasoning("mine"))
    (key,) = all_keys(view)

    assert without_foreign(replace(view, origins={key: "spark"}), "spark") is None
    assert without_foreign(view, "spark") is None


def test_state_that_a_target_refused_is_kept_from_that_target_alone():
    assert is_foreign(refused_by("spark"), "spark")
    assert not is_foreign(refused_by("spark"), "sage")
    assert is_foreign("sage", "spark")
    assert not is_foreign(None, "spark")


def test_the_keys_for_a_target_are_those_that_it_would_be_sent():
    view = responses(reasoning("mine"), reasoning("theirs"), reasoning("unknown"))
    mine, theirs, unknown = all_keys(view)

    view = replace(view, origins={mine: "spark", theirs: "sage"})

    assert keys_for(view, "spark") == (mine, unknown)
    assert list(keys_of(view)) == [mine, theirs, unknown]
    assert list(keys_of(view, 3)) == [unknown]
