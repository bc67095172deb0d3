import pytest

from router.contract.errors import BadRequest, NotAllowed
from router.contract.words import Dialect, Feature, Operation
from router.dialects.opaque import all_keys
from router.dialects.requests import USUAL_FIELDS, guess_dialect, refuse_library_fields
from router.dialects.table import SPECS
from tests.tools.values import ask, make_view

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


@pytest.mark.parametrize(
    ("dialect", "body", "field"),
    [
        (Dialect.CHAT, {"messages": []}, "messages"),
        (Dialect.CHAT, {"messages": ["x"]}, "messages[0]"),
        (Dialect.CHAT, {"messages": [{}], "tools": 7}, "tools"),
        (Dialect.CHAT, {"messages": [{}], "stream": "yes"}, "stream"),
        (Dialect.CHAT, {"messages": [{}], "stream": 1}, "stream"),
        (Dialect.CHAT, {"messages": [{}], "stream_options": {}}, "stream_options"),
        (Dialect.RESPONSES, {"input": "x", "background": True}, "background"),
        (Dialect.CHAT, {"model": 5, "messages": [{}]}, "model"),
        (Dialect.CHAT, {"model": "a\u0000b", "messages": [{}]}, "model"),
    ],
)
def test_what_is_missing_or_wrong_is_named(dialect, body, field):
    with pytest.raises(BadRequest) as caught:
        make_view(body, dialect)

    assert caught.value.param == field


@pytest.mark.parametrize(
    "field",
    ["api_base", "base_url", "api_key", "extra_headers", "mock_response", "fallbacks", "aws_region_name", "organization"],
)
def test_fields_that_a_library_would_obey_are_refused(field):
    with pytest.raises(NotAllowed) as caught:
        ask(**{field: "x"})

    assert caught.value.param == field


@pytest.mark.parametrize("field", ["temperature", "top_p", "top_k"])
@pytest.mark.parametrize(
    ("version", "is_refused"),
    [
        ("2026-10-21", True),
        ("2027-01-01", True),
        ("2026-10-20", False),
        ("2023-06-01", False),
        ("vertex-2026-10-21", False),
        ("", False),
    ],
)
def test_a_field_is_refused_where_the_callers_version_no_longer_has_it(field, version, is_refused):
    body, headers = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 9}, {"anthropic-version": version}

    make_view({**body, field: None}, Dialect.MESSAGES, headers)
    make_view({**body, field: 1}, Dialect.CHAT, headers)
    if is_refused:
        with pytest.raises(BadRequest, match=f"^{field}: not permitted in anthropic-version {version}"):
            make_view({**body, field: 1}, Dialect.MESSAGES, headers)
    else:
        assert make_view({**body, field: 1}, Dialect.MESSAGES, headers).body[field] == 1


def test_no_usual_field_is_one_that_is_refused():
    for field in USUAL_FIELDS:
        refuse_library_fields({field: "x"})

    assert len(USUAL_FIELDS) > 20


@pytest.mark.parametrize(
    ("dialect", "parts", "more", "needs"),
    [
        (Dialect.CHAT, [IMAGE], {"tools": [{"type": "custom", "custom": {"name": "p"}}]}, {"images", "custom_tools"}),
        (
            Dialect.MESSAGES,
            [{"type": "tool_result", "content": [{"type": "image", "source": {"data": "AAAA"}}]}],
            {"max_tokens": 1, "tools": [{"name": "x", "input_schema": {}}]},
            {"images", "tools"},
        ),
        (
            Dialect.RESPONSES,
            [{"type": "input_image", "image_url": "x"}, {"type": "input_file", "file_data": "y"}],
            {"text": {"format": {"type": "json_schema"}}, "reasoning": {"effort": "low"}},
            {"images", "files", "json_schema", "reasoning"},
        ),
    ],
)
def test_needs_are_read_from_every_dialect(dialect, parts, more, needs):
    view = make_view({SPECS[dialect].list_field: [{"role": "user", "content": parts}], **more}, dialect)

    assert view.needs == {Feature.TEXT, *map(Feature, needs)}
    assert view.effort == ("low" if "reasoning" in needs else None)


@pytest.mark.parametrize(
    ("body", "dialect"),
    [
        ({"input": "x"}, Dialect.RESPONSES),
        ({"type": "response.create"}, Dialect.RESPONSES),
        ({"prompt": "x"}, Dialect.COMPLETIONS),
        ({"messages": [], "system": "x"}, Dialect.MESSAGES),
        ({"messages": [], "tools": [{"input_schema": {}}]}, Dialect.MESSAGES),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]}]}, Dialect.MESSAGES),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}, 7]}, Dialect.CHAT),
        ({"messages": [{"content": [{"type": ["tool_use"]}]}]}, Dialect.CHAT),
        ({"messages": []}, Dialect.CHAT),
    ],
)
def test_a_body_without_a_route_shows_its_dialect_by_its_fields(body, dialect):
    assert guess_dialect(body) is dialect


@pytest.mark.parametrize("odd", [[], {}, 1, None])
@pytest.mark.parametrize(("dialect", "body"), [
    (Dialect.CHAT, lambda part: {"messages": [{"role": "system", "content": [part]}, {"role": "user", "content": [part]}]}),
    (Dialect.RESPONSES, lambda part: {"input": [part, {"role": "developer", "content": [part]}, {"role": "user", "content": [part]}]}),
    (Dialect.MESSAGES, lambda part: {"max_tokens": 9, "system": [part], "messages": [{"role": "assistant", "content": [part]}]}),
])  # fmt: skip
def test_a_part_whose_type_is_no_word_is_read_as_one_of_an_unknown_type(dialect, body, odd):
    view = make_view(body({"type": odd, "text": "x"}), dialect)

    assert all_keys(view) == ()
    assert not any(message.texts for message in view.conversation)


def test_a_count_of_tokens_is_never_a_stream_whatever_its_body_says():
    asked = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1, "stream": True}

    counts, creates = (
        make_view(asked, Dialect.MESSAGES, operation=each) for each in (Operation.COUNT_TOKENS, Operation.CREATE)
    )

    assert (counts.is_streaming, creates.is_streaming) == (False, True)
