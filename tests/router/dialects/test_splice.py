import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from router.contract.errors import TooDeep
from router.dialects.splice import replace_model

values = some.recursive(
    some.none() | some.booleans() | some.integers(-(2**53), 2**53) | some.text(max_size=20),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.sampled_from(["model", "a", "b"]), inner, max_size=3),
    max_leaves=12,
)


@given(some.dictionaries(some.text(max_size=8), values, max_size=6), some.booleans(), some.text(max_size=12))
def test_only_the_models_name_changes_whatever_else_the_body_holds(body, spaced, name):
    body = {**body, "model": name}
    raw = json.dumps(body, ensure_ascii=spaced, indent=2 if spaced else None).encode("utf-8", "surrogatepass")

    changed = json.loads(replace_model(raw, body, "other", {}))

    assert changed == {**body, "model": "other"}


def test_a_body_with_one_model_key_keeps_every_other_byte():
    raw = b'{ "messages" : [ {"content":"say \\"model\\": \\"x\\""} ] ,\n "model"\t:  "auto", "x": 1.50 }'

    changed = replace_model(raw, json.loads(raw), "m", {})

    assert changed == raw.replace(b'"auto"', b'"m"')


@pytest.mark.parametrize("spaced", [False, True])
def test_a_large_body_keeps_every_other_byte_too(spaced):
    body = {"model": "auto", "messages": [{"role": "user", "content": "é\n" * 20_000}], "x": [1, 2.5, None, True]}
    raw = json.dumps(body, ensure_ascii=spaced, separators=None if spaced else (",", ":")).encode()

    assert replace_model(raw, body, "m", {}) == raw.replace(b'"auto"', b'"m"')


def test_a_duplicate_key_in_a_large_body_does_not_smuggle_a_second_model_upstream():
    raw = b'{"model":"gpt-9","messages":["' + b"x" * 20_000 + b'"],"model":"gpt-9"}'

    changed = replace_model(raw, json.loads(raw), "m", {})

    assert b"gpt-9" not in changed


def test_a_duplicate_key_does_not_smuggle_a_second_model_upstream():
    raw = b'{"model": "gpt-9", "messages": [], "model": "auto"}'

    changed = replace_model(raw, json.loads(raw), "m", {})

    assert json.loads(changed) == {"model": "m", "messages": []}
    assert b"gpt-9" not in changed


@pytest.mark.parametrize(
    "raw",
    [
        b'{"mod\\u0065l": "gpt-9", "metadata": {"model": "x"}, "messages": []}',
        b'{"model": "auto", "mod\\u0065l": "gpt-9", "messages": []}',
        b'{"\\u006D\\u006Fdel": "gpt-9", "messages": [], "metadata": {"model": "x"}}',
    ],
)
def test_an_escaped_key_does_not_smuggle_a_model_upstream(raw):
    changed = json.loads(replace_model(raw, json.loads(raw), "m", {}))

    assert changed["model"] == "m"
    assert "gpt-9" not in str(changed)


def test_a_body_too_deep_to_be_written_anew_is_refused_and_not_a_defect():
    deep: list = []
    for _ in range(400):
        deep = [deep]

    with pytest.raises(TooDeep):
        replace_model(b"{}", {"model": "auto", "x": deep}, "m", {})
