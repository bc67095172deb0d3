import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from router.contract.words import Dialect, Feature
from router.dialects.fitting import Fit, fields_to_change, reasons_to_change
from router.dialects.hosts import quirks_of
from router.dialects.table import SPECS
from router.dialects.translate.envelope import wrap
from tests.tools.values import EVERYTHING, ask, make_target, make_view


def test_taking_effort_out_of_a_messages_request_leaves_its_format():
    body = {
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "x"}],
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high", "format": {"type": "json_schema"}},
    }
    view = make_view(body, Dialect.MESSAGES)

    changes, _ = fields_to_change(view, make_target(accepts=EVERYTHING - {Feature.REASONING}), Fit())

    assert changes == {"thinking": None, "output_config": {"format": {"type": "json_schema"}}}


def test_what_a_host_refuses_goes_and_its_own_word_for_the_limit_is_used():
    view = ask(max_tokens=9, logit_bias={"1": 2}, prompt_cache_key="s")

    changes, lost = fields_to_change(view, make_target(), Fit(quirks_of("https://api.cerebras.ai/v1")))

    assert changes == {"logit_bias": None, "prompt_cache_key": None, "max_completion_tokens": 9, "max_tokens": None}
    assert sorted(lost) == ["logit_bias", "prompt_cache_key"]


@pytest.mark.parametrize("dialect", [dialect for dialect in Dialect if dialect is not Dialect.CHAT])
def test_a_chat_hosts_word_for_the_limit_is_put_into_no_other_dialect(dialect):
    spec, fit = SPECS[dialect], Fit(quirks_of("https://api.openai.com/v1"))
    view = make_view({**spec.write_example("x"), spec.limit_field: 9}, dialect)
    target = make_target(speaks=frozenset({dialect}))

    assert fields_to_change(view, target, fit) == ({}, ())
    assert reasons_to_change(target, fit)[dialect].leave_alone(view, target)


def test_reasoning_that_came_over_a_bridge_is_kept_from_a_target_of_the_callers_own_dialect():
    wrapped = wrap("other", {"type": "thinking"})
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": wrapped}
    own = {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "gAAA"}
    user = {"role": "user", "content": "x"}
    responses = make_view({"input": [user, item, own, user]}, Dialect.RESPONSES)
    thinking = {"type": "thinking", "thinking": "t", "signature": wrapped}
    messages = make_view(
        {
            "max_tokens": 9,
            "messages": [user, {"role": "assistant", "content": [thinking, {"type": "text", "text": "a"}]}, user],
        },
        Dialect.MESSAGES,
    )

    assert fields_to_change(responses, make_target(), Fit())[0] == {"input": [user, own, user]}
    kept = fields_to_change(messages, make_target(), Fit())[0]["messages"]
    assert kept == [user, {"role": "assistant", "content": [{"type": "text", "text": "a"}]}, user]


def test_a_message_of_nothing_but_wrapped_thinking_goes_and_is_named_as_lost():
    user = {"role": "user", "content": "x"}
    thinking = {"type": "thinking", "thinking": "t", "signature": wrap("other", {})}
    view = make_view(
        {"max_tokens": 9, "messages": [user, {"role": "assistant", "content": [thinking]}, user]}, Dialect.MESSAGES
    )

    changes, lost = fields_to_change(view, make_target(), Fit())

    assert changes == {"messages": [user, user]}
    assert lost == ("reasoning of another target",)


def test_of_two_limits_only_the_one_that_the_host_knows_goes():
    view = make_view({"messages": [{"role": "user", "content": "x"}], "max_tokens": 9, "max_completion_tokens": 5})

    assert fields_to_change(view, make_target(), Fit(quirks_of("https://api.openai.com/v1")))[0] == {"max_tokens": None}


def test_effort_is_said_in_the_hosts_words():
    view = make_view({"messages": [{"role": "user", "content": "x"}], "reasoning_effort": "xhigh"})

    assert fields_to_change(view, make_target(), Fit(quirks_of("https://api.cerebras.ai/v1")))[0] == {
        "reasoning_effort": "high"
    }


MESSAGE = {"role": "user", "content": "x"}
BODIES = {
    Dialect.CHAT: {"messages": [MESSAGE]},
    Dialect.RESPONSES: {"input": [MESSAGE]},
    Dialect.MESSAGES: {"messages": [MESSAGE], "max_tokens": 9},
    Dialect.COMPLETIONS: {"prompt": "x"},
}
MORE = {
    "max_tokens": 9, "max_completion_tokens": 9, "reasoning_effort": "xhigh", "reasoning": {"effort": "xhigh"},
    "output_config": {"effort": "xhigh"}, "logit_bias": {"1": 2}, "store": False, "temperature": 1,
    "user": wrap("other", {}),
}  # fmt: skip
HOSTS = ("api.openai.com", "api.anthropic.com", "api.cerebras.ai", "api.groq.com", "api.x.ai", "models.example")


@given(
    dialect=st.sampled_from(sorted(BODIES)),
    more=st.sets(st.sampled_from(sorted(MORE))),
    host=st.sampled_from(HOSTS),
    efforts=st.sampled_from(({}, {"xhigh": "high"})),
    accepts=st.sampled_from((EVERYTHING, EVERYTHING - {Feature.REASONING})),
    instructions=st.sampled_from(("", "Be brief.")),
)
def test_a_request_without_a_reason_to_change_has_no_field_that_changes(dialect, more, host, efforts, accepts, instructions):
    view = make_view({**BODIES[dialect], **{name: MORE[name] for name in more}}, dialect)
    target = make_target(speaks=frozenset(Dialect), accepts=accepts)
    fit = Fit(quirks_of(f"https://{host}/v1"), efforts, instructions)

    reasons = reasons_to_change(target, fit).get(dialect)

    if reasons is not None and reasons.leave_alone(view, target):
        assert fields_to_change(view, target, fit) == ({}, ())


def test_most_requests_give_no_reason_to_change_and_foreign_state_does():
    for dialect, body in BODIES.items():
        view, target = make_view(body, dialect), make_target(speaks=frozenset(Dialect))
        for host in HOSTS:
            reasons = reasons_to_change(target, Fit(quirks_of(f"https://{host}/v1")))[dialect]
            assert reasons.leave_alone(view, target)
            assert not reasons.leave_alone(replace(view, origins={"key": "other"}), target)


def test_a_dialect_that_a_target_does_not_speak_or_that_gets_instructions_always_changes():
    assert Dialect.MESSAGES not in reasons_to_change(make_target(speaks=frozenset({Dialect.CHAT})), Fit())
    assert reasons_to_change(make_target(), Fit(instructions="Be brief.")) == {}
