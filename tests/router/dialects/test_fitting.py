from router.contract.words import Dialect, Feature
from router.dialects.fitting import Fit, fields_to_change
from router.dialects.hosts import quirks_of
from router.dialects.translate.envelope import wrap
from tests.tools.values import EVERYTHING, ask, make_target, make_view


def test_reasoning_is_taken_out_for_a_target_that_does_not_take_it_and_kept_for_one_that_does():
    view = ask(reasoning_effort="high")
    plain = make_target(accepts=EVERYTHING - {Feature.REASONING})

    assert fields_to_change(view, plain, Fit()) == ({"reasoning_effort": None}, ("reasoning_effort",))
    assert fields_to_change(view, make_target(), Fit()) == ({}, ())


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


def test_effort_is_said_in_the_configs_words_wherever_the_dialect_keeps_it():
    fit = Fit(efforts={"xhigh": "high"})
    chat = ask(reasoning_effort="xhigh")
    responses = make_view({"input": "x", "reasoning": {"effort": "xhigh", "summary": "auto"}}, Dialect.RESPONSES)

    assert fields_to_change(chat, make_target(), fit)[0] == {"reasoning_effort": "high"}
    assert fields_to_change(responses, make_target(), fit)[0] == {"reasoning": {"effort": "high", "summary": "auto"}}


def test_a_tiers_instructions_stand_at_a_constant_place_of_the_system_prompt():
    fit = Fit(instructions="Small edits.")
    chat = make_view({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "x"}]})
    bare = ask()
    responses = make_view({"input": "x", "instructions": "S"}, Dialect.RESPONSES)
    messages = make_view({"max_tokens": 9, "system": "S", "messages": [{"role": "user", "content": "x"}]}, Dialect.MESSAGES)

    target = make_target()
    assert [m["content"] for m in fields_to_change(chat, target, fit)[0]["messages"]] == ["S", "Small edits.", "x"]
    assert fields_to_change(bare, target, fit)[0]["messages"][0] == {"role": "system", "content": "Small edits."}
    assert fields_to_change(responses, target, fit)[0] == {"instructions": "S\n\nSmall edits."}
    assert [b["text"] for b in fields_to_change(messages, target, fit)[0]["system"]] == ["S", "Small edits."]


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
