import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as some

from router.contract.errors import TooDeep
from router.dialects.json_body import parse_request
from router.dialects.splice import find_repeated, parse_apart, replace_fields, replace_model, split_members
from tests.tools.houses import arrive
from tests.tools.work import cost_ratio

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


def test_what_is_deep_and_stays_as_it_is_goes_along():
    raw = b'{"model":"auto","x":%s,"y":1}' % (b"[" * 400 + b"]" * 400)

    assert replace_model(raw, orjson.loads(raw), "m", {"y": None}) == raw.replace(b"auto", b"m").replace(b',"y":1', b"")


SPACES = some.sampled_from([b"", b" ", b"\n\t", b"\r\n  "])
FRAGILE = [
    b"1234567890123456789012",
    b"-115792089237316195423570985008687907853269984665640564039457584007913129639935",
    b"1.50",
    b"0.1000000000000000055",
    b"1E5",
    b"-0",
    b"1e-400",
    b'"\\u0041\\/ \xc3\xa9"',
    b'{ "model" : "gpt-9", "a":[1 , 2.0] }',
    b'[ {"x":18446744073709551616} , null ]',
    b'"say \\"model\\": \\"x\\""',
]
"""JSON values that come out otherwise, or might, when they are parsed and written anew."""


@some.composite
def bodies(draw, size: int = 0):
    """A body as bytes, in pieces: what is before the model's value, the value, and what is after it."""
    names = draw(some.lists(some.sampled_from(["a", "b", "c", "messages", "tools"]), unique=True, max_size=4))
    members = [b'"%s"%s:%s%s' % (name.encode(), draw(SPACES), draw(SPACES), draw(some.sampled_from(FRAGILE))) for name in names]
    if size:
        members.append(b'"padding":"%s"' % (b"x" * size))
    place = draw(some.integers(0, len(members)))
    space, value = draw(SPACES), draw(some.sampled_from([b'"auto"', b'"a\\"b"', b'"gpt-5 \\u00e9"']))
    before = b"".join(space + member + b"," for member in members[:place])
    after = b"".join(b"," + space + member for member in members[place:])
    return b"{" + before + space + b'"model"' + draw(SPACES) + b":" + draw(SPACES), value, draw(SPACES) + after + space + b"}"


@pytest.mark.parametrize("size", [0, 20_000])
def test_wherever_the_model_is_no_byte_but_its_value_changes(size):
    @given(bodies(size))
    def check(pieces):
        before, value, after = pieces
        raw = before + value + after
        body, has_one_model, _ = parse_request(arrive(raw=raw))

        changed = replace_model(raw, body, "other", {}, has_one_model=has_one_model)

        if before.count(b'"model"') + after.count(b'"model"') == 1:
            assert body == orjson.loads(raw)
            assert changed == before + b'"other"' + after
        else:  # another object has such a key: then values stay as they came, and space between the fields may go
            assert orjson.loads(changed) == {**orjson.loads(raw), "model": "other"}
            assert all(fragile in changed for fragile in FRAGILE if fragile in before + after)

    check()


@given(bodies(), some.sampled_from(FRAGILE))
def test_a_field_that_changes_leaves_the_bytes_of_all_others_as_they_came(pieces, kept):
    raw = b"".join(pieces)[:-1] + b',"kept":%s,"gone":1,"new":2}' % kept

    changed = replace_model(raw, orjson.loads(raw), "other", {"gone": None, "new": [3]})

    after = orjson.loads(changed)
    assert (after["model"], after["new"], "gone" in after) == ("other", [3], False)
    assert b'"kept":' + kept in changed
    assert all(fragile in changed for fragile in FRAGILE if fragile in b"".join(pieces))


def test_items_that_stay_keep_their_digits_when_others_are_put_before_them_or_changed():
    raw = b'{"model":"auto","messages":[{"role":"user","n":1e30,"big":123456789012345678901},{"role":"tool","x":1.50}]}'
    body = orjson.loads(raw)
    first, last = body["messages"]

    added = replace_fields(raw, body, {"messages": [{"role": "system"}, first, last]})
    altered = replace_fields(raw, body, {"messages": [{**first, "role": "me"}, last]})

    assert added == raw.replace(b"[{", b'[{"role":"system"},{')
    assert altered == raw.replace(b'"user"', b'"me"')


def test_a_body_that_begins_with_its_model_is_parsed_the_same_apart():
    raw = b'{ "model" : "a\\u0062",\n "x":{"model":"y"}, "messages":["' + b"x" * 20_000 + b'"] }'

    assert parse_apart(raw) == orjson.loads(raw)
    assert list(parse_apart(raw)) == list(orjson.loads(raw))


LONG = b'"messages":["' + b"x" * 20_000 + b'"]'


@pytest.mark.parametrize("raw", [
    b'{"model":"auto",' + LONG + b',"model":"auto"}',
    b'{"model":"auto",' + LONG + b',"mod\\u0065l":"auto"}',
    b'{"model":"auto",' + LONG + b"," + LONG[:-1] + b"}",
    b'{"model":"auto",' + b" " * 20_000 + b"}",
    b'{"model":"auto",,' + LONG + b"}",
    b'{"model":5,' + LONG + b"}",
    b'{"model":"auto"}' + b" " * 20_000,
    b"{" + LONG + b',"model":"auto"}',
    b'{"x":{"model":"auto",' + LONG + b"}}",
], ids=["twice", "twice, once escaped", "cut", "comma at the end", "two commas", "number", "alone", "last", "nested"])  # fmt: skip
def test_a_body_of_which_nothing_is_proven_that_way_is_not_parsed_apart(raw):
    assert parse_apart(raw) is None


@pytest.mark.parametrize("second", [b'"model":"gpt-9"', b'"mod\\u0065l":"gpt-9"'])
@pytest.mark.parametrize("padding", [b"x", b"x" * 20_000])
def test_a_second_model_of_the_same_name_never_reaches_a_target(second, padding):
    raw = b'{"model":"gpt-9","big":123456789012345678901,"messages":["%s"],%s}' % (padding, second)
    body, has_one_model, _ = parse_request(arrive(raw=raw))

    changed = replace_model(raw, body, "m", {}, has_one_model=has_one_model)

    assert changed == b'{"model":"m","big":123456789012345678901,"messages":["%s"]}' % padding


@pytest.mark.parametrize(
    "raw",
    [b'{"a":"\\"model\\":\\"x\\"","mod\\u0065l":"auto"}', b'{"a":1}', b'{"x\\"model":"y"}', b'{"x\\"model":"y","a":"model"}'],
)
def test_words_that_look_like_the_key_are_not_taken_for_it(raw):
    body = orjson.loads(raw)

    assert orjson.loads(replace_model(raw, body, "m", {})) == {**body, "model": "m"}


def test_only_a_large_body_is_parsed_apart():
    small, large = b'{"model":"auto","x":1}', b'{"model":"auto",' + LONG + b"}"

    assert parse_request(arrive(raw=small)) == (orjson.loads(small), False, None)
    assert parse_request(arrive(raw=large)) == (orjson.loads(large), True, None)


@given(
    some.lists(
        some.tuples(
            some.sampled_from(["a", "b", "\u00e9\n", 'q"']), some.integers(0, 2) | some.lists(some.just({"a": 1}), max_size=2)
        ),
        max_size=5,
    ),
    some.sampled_from(["", " ", "\n\t"]),
)
def test_a_repeated_key_is_found_and_no_other(members, gap):
    written = [f"{gap}{json.dumps(key)}{gap}:{gap}{json.dumps(value)}{gap}" for key, value in members]
    names = [key for key, _ in members]

    found = find_repeated((gap + "{" + ",".join(written) + "}" + gap).encode())

    assert (found is None) == (len(names) == len(set(names)))
    assert found is None or names.count(found) > 1


def test_an_object_that_is_nested_too_deeply_to_be_walked_is_not_called_free_of_repeats():
    with pytest.raises((ValueError, RecursionError)):
        find_repeated(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}")


@pytest.mark.parametrize("end", [b"", b',"a":2', b",", b',"a"'])
def test_blanks_between_members_cost_no_more_than_their_number(end):
    def search(blanks):
        members = split_members(b'{"a":1}')
        return lambda: find_repeated(b'{"a":1' + blanks * b" " + end + blanks * b"\n" + b"}", members)

    assert cost_ratio(search(40_000), search(20_000)) < 3
