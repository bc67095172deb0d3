"""A body that only grew is parsed where it grew, and whatever it is, the result is what parsing all of it would give."""

import json
from random import Random

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contract.errors import BadRequest
from router.contract.exchange import Arrival
from router.contract.request import JsonObject
from router.contract.words import Dialect, Operation
from router.dialects import grown, histories, json_body
from router.dialects.histories import NO_HISTORIES, Histories
from router.dialects.json_body import parse_request

FIELDS = {"model": "auto", "stream": False}
TOOLS = {"tools": [{"type": "function", "function": {"name": "read", "parameters": {"messages": [1]}}}], "n": 1}
KNOWN = Histories()


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch):
    """Small bodies are kept as well."""
    monkeypatch.setattr(json_body, "_SHORT_BYTES", 0)
    monkeypatch.setattr(json_body, "_LARGE_BYTES", 0)
    KNOWN.clear()


@pytest.fixture
def parsed(monkeypatch) -> list[int]:
    """The lengths of what orjson is given."""
    lengths: list[int] = []

    class Orjson:
        JSONDecodeError = orjson.JSONDecodeError

        def loads(self, raw: bytes):
            lengths.append(len(raw))
            return orjson.loads(raw)

    monkeypatch.setattr(grown, "orjson", Orjson())
    return lengths


def messages(*numbers: int) -> list:
    return [{"role": "user", "content": f"message {number} " * 20} for number in numbers]


def body_of(items: list, before: dict = FIELDS, after: dict = TOOLS) -> bytes:
    return json.dumps({**before, "messages": items, **after}).encode()


def parse_known(raw: bytes, dialect: Dialect = Dialect.CHAT, known: Histories = KNOWN) -> tuple[JsonObject, bool]:
    body, has_one_model, _ = parse_request(Arrival("r", dialect, Operation.CREATE, {}, raw), known)
    return body, has_one_model


def parse(raw: bytes, dialect: Dialect = Dialect.CHAT) -> dict:
    """Parse it, and see that it is what a parse of the whole gives, in the same order."""
    body, _ = parse_known(raw, dialect)
    whole = orjson.loads(raw)
    assert body == whole
    assert list(body) == list(whole)
    return body


def is_grown(body: dict) -> bool:
    return body["messages"].known[0].count > 0


def test_only_what_is_new_is_parsed(parsed):
    parse(body_of(messages(*range(20))))
    parsed.clear()

    assert is_grown(parse(body_of(messages(*range(22)))))
    assert parsed == [len(json.dumps(messages(20, 21))) + len("[[null, ]]") - 2]


def test_the_same_body_again_has_nothing_new(parsed):
    parse(body_of(messages(*range(20))))
    parsed.clear()

    assert is_grown(parse(body_of(messages(*range(20)))))
    assert parsed == [len("[[null]]")]


def test_a_change_in_the_last_two_messages_lets_only_these_be_parsed_again():
    parse(body_of(messages(*range(20))))
    for last in range(21, 40):
        body = parse(body_of([*messages(*range(last - 2)), *messages(77, 78)]))
        assert body["messages"].known[0].count == last - 3


def test_a_change_before_them_makes_it_another():
    parse(body_of(messages(*range(20))))

    assert not is_grown(parse(body_of(messages(0, 99, *range(2, 20)))))


def test_an_end_that_is_another_is_parsed_with_what_is_new(parsed):
    """Codex writes its last field in another order each time."""
    raw = body_of(messages(*range(20)))
    parse(raw)
    parsed.clear()

    body = parse(body_of(messages(*range(22)), after={**TOOLS, "metadata": {"b": 1}}))
    assert is_grown(body)
    assert max(parsed) < len(raw) / 2
    assert is_grown(parse(body_of(messages(*range(24)), after={"metadata": {}})))


def test_other_fields_before_the_messages_make_it_another():
    parse(body_of(messages(*range(20))))

    assert not is_grown(parse(body_of(messages(*range(22)), before={**FIELDS, "stream": True})))


def test_a_body_with_two_models_does_not_lend_its_last_to_others():
    raw = body_of(messages(*range(20)))
    parse(raw[:-1] + b', "model": "deep"}')

    assert parse(body_of(messages(*range(22)), after={"n": 2}))["model"] == "auto"


def test_a_few_messages_are_not_kept():
    assert not isinstance(parse(body_of(messages(1, 2, 3)))["messages"], grown.Items)
    assert isinstance(parse(body_of(messages(1, 2, 3, 4)))["messages"], grown.Items)


def test_what_is_larger_than_any_conversation_is_not_kept(monkeypatch):
    assert not isinstance(parse(body_of([{}] * 2_001))["messages"], grown.Items)
    raw = body_of(messages(*range(20)))
    monkeypatch.setattr(grown, "LARGEST_BYTES", len(raw) - 1)
    assert not isinstance(parse(raw)["messages"], grown.Items)

    monkeypatch.setattr(grown, "LARGEST_BYTES", len(raw) + 100)
    monkeypatch.setattr(histories, "LARGEST_BYTES", len(raw) + 100)
    parse(raw)
    assert is_grown(parse(body_of(messages(*range(22)))))
    assert KNOWN.bodies == {}


def test_two_dialects_share_nothing():
    parse(body_of(messages(*range(20))))

    assert not is_grown(parse(body_of(messages(*range(20))), Dialect.MESSAGES))
    assert is_grown(parse(body_of(messages(*range(20)))))


@pytest.mark.parametrize(
    "between",
    [
        b"]", b"],[null", b"]],[[null", b'],"messages":[null', b'],"model":"deep","x":[1', b"1", b",", b",{", b",,", b' "a"',
        b"\xff",
    ],
)  # fmt: skip
def test_what_is_no_more_messages_is_parsed_as_the_whole_says(between):
    raw = body_of(messages(*range(20)))
    parse(raw)
    ((kept,),) = KNOWN.bodies.values()
    spoilt = bytes(kept.start) + between + kept.end

    assert outcome(spoilt) == outcome(spoilt, NO_HISTORIES)


def outcome(raw: bytes, known: Histories = KNOWN) -> object:
    try:
        return parse_known(raw, known=known)[0]
    except BadRequest as error:
        return str(error)


@pytest.mark.parametrize("name", ["messages", "model", "tools", "x", "mess\\u0061ges"])
def test_a_field_that_comes_again_at_the_end_is_met_as_in_a_new_body(name):
    raw = body_of(messages(*range(20)), before={**FIELDS, "x": 1})
    again = raw[:-1] + b', "%b": [7]}' % name.encode()
    parse(raw)

    assert outcome(again) == outcome(again, NO_HISTORIES)


def test_nesting_has_the_same_limit_as_in_a_new_body():
    def deep(levels: int) -> bytes:
        item = b'{"role": "user", "content": ' + b"[" * levels + b"]" * levels + b"}"
        return body_of(messages(*range(20)))[:-1].replace(b'], "tools"', b", " + item + b'], "tools"') + b"}"

    for levels in (10, 500, 800, 1022, 1100):
        expected = outcome(deep(levels), NO_HISTORIES)
        parse(body_of(messages(*range(20))))
        assert type(outcome(deep(levels))) is type(expected)
        assert isinstance(expected, dict) == (levels <= 800)


def test_a_message_that_begins_with_itself_lets_no_invalid_body_pass():
    start = '{"model":"auto","messages":[' + ",".join(json.dumps(each) for each in messages(*range(4))) + ","
    twisted = '{"a":[1,' * 12 + "{}" + "]}" * 12 + " " * 64
    parse((start + twisted + ',{"role":"user","content":"last"}],"stream":true}').encode())

    for depth in range(14):
        cut_off = start + '{"a":[1,' * depth + '{"a":[1' + ',{"role":"user","content":"more"}],"stream":true}'
        with pytest.raises(BadRequest):
            parse_known(cut_off.encode())


def test_a_model_that_was_proven_to_be_there_once_stays_so():
    parse(body_of(messages(*range(20))))

    assert parse_known(body_of(messages(*range(22))))[1]
    assert parse_known(body_of(messages(*range(24)), after={"n": 2}))[1]


def test_what_is_read_does_not_change_what_is_kept():
    raw = body_of(messages(*range(20)))
    for _ in range(3):
        body = parse(raw)
        body["messages"].append(7)
        body["model"] = "changed"
        body.pop("tools")


def kept_bodies(known: Histories = KNOWN) -> list[grown.Body]:
    return [body for alike in known.bodies.values() for body in alike]


def test_the_longest_unused_are_forgotten(monkeypatch):
    monkeypatch.setattr(histories, "MAX_BYTES", len(body_of(messages(*range(20)))) * 7 // 2)
    for number in range(5):
        parse(body_of(messages(*range(number, number + 20))))
    assert len(kept_bodies()) == 3
    assert is_grown(parse(body_of(messages(*range(2, 22)))))
    parse(body_of(messages(*range(7, 27))))

    assert is_grown(parse(body_of(messages(*range(2, 22)))))
    assert not is_grown(parse(body_of(messages(*range(3, 23)))))


def test_what_is_counted_as_kept_is_what_is_kept_however_bodies_grow_and_are_forgotten(monkeypatch):
    monkeypatch.setattr(histories, "MAX_BYTES", len(body_of(messages(*range(30)))) * 5)
    random = Random(7)
    for _ in range(300):
        begin = random.randrange(12)
        parse(body_of(messages(*range(begin, begin + random.randrange(16, 40)))))

        assert KNOWN.kept_bytes == sum(body.size for body in kept_bodies()) <= histories.MAX_BYTES


def test_of_conversations_with_the_same_bytes_at_every_landmark_each_is_found(monkeypatch):
    alike = [{"role": "user", "content": "the same in all of them, " * 40} for _ in range(30)]
    for _ in range(2):
        for number in range(200):
            raw = body_of([{"role": "user", "content": f"{number:03}"}, *alike])
            parse(raw)
            alike_but_longer = parse(body_of([{"role": "user", "content": f"{number:03}"}, *alike, *messages(number)]))

            assert is_grown(alike_but_longer)
    assert len(kept_bodies()) == 200
    assert max(map(len, KNOWN.bodies.values())) > 100


SPACES = st.sampled_from(["", " ", "\n  "])
VALUES = st.recursive(st.none() | st.integers(-9, 9) | st.text(max_size=6), lambda inner: st.lists(inner, max_size=3))
ITEMS = st.one_of(st.dictionaries(st.sampled_from(["role", "content", "messages", "input"]), VALUES, max_size=3), VALUES)


@given(st.lists(ITEMS, min_size=4, max_size=9), st.integers(0, 1 << 30), SPACES, SPACES)
def test_whatever_is_sent_one_after_another_each_is_parsed_as_alone(items, seed, comma, colon):
    """A conversation grows, is edited and cut, and its fields change before and behind it."""
    KNOWN.clear()
    random = Random(seed)
    before, after = {"model": "auto"}, {"tools": [1, {"messages": items[:2]}]}
    for _ in range(12):
        match random.randrange(8):
            case 0:
                items = items[: random.randrange(len(items) + 1)]
            case 1 if items:
                items = [*items]
                items[random.randrange(-min(3, len(items)), 0)] = {"edited": random.random()}
            case 2:
                after = {**after, f"field {random.randrange(3)}": random.choice([1, "]", items, {"messages": items}])}
            case 3:
                after = dict(random.sample(list(after.items()), len(after)))
            case 4:
                before = {"model": "auto", "x": random.choice([1, 2])}
            case _:
                items = [*items, *random.choices([*items, 1, "]", {"messages": []}, [[]]], k=random.randrange(4))]
        raw = json.dumps({**before, "messages": items, **after}, separators=("," + comma, ":" + colon)).encode()
        body, _ = parse_known(raw)
        assert body == orjson.loads(raw)
        assert list(body) == list(orjson.loads(raw))
