"""What a request needs, held against what each target takes."""

from msgspec.structs import replace

from policies.capability import CapabilityPolicy
from router.contract.words import Dialect, Feature, Tier
from tests.tools.values import make_signals, make_target, make_view, stand


def test_capability_names_what_a_target_does_not_take():
    policy = CapabilityPolicy(CapabilityPolicy.Config())
    plain = stand(make_target(accepts=frozenset({Feature.TEXT})))
    image = [{"type": "image_url", "image_url": {"url": "x"}}]
    view = make_view({"messages": [{"role": "user", "content": image}], "tools": [{"type": "function"}]})

    lacking = policy.judge(view, make_signals(plain))

    assert "an image and tools" in lacking[0].because
    assert all(opinion.lasting for opinion in lacking)


def test_a_free_form_tool_needs_a_target_that_takes_it_or_a_bridge_that_makes_it_a_function():
    policy = CapabilityPolicy(CapabilityPolicy.Config())
    view = make_view({"input": "x", "tools": [{"type": "custom", "name": "patch"}]}, Dialect.RESPONSES)
    accepts = frozenset({Feature.TEXT, Feature.TOOLS})
    native = stand(make_target(accepts=accepts, speaks=frozenset({Dialect.RESPONSES})))
    bridged = stand(make_target(accepts=accepts, speaks=frozenset({Dialect.CHAT})))

    assert "free-form" in policy.judge(view, make_signals(native))[0].because
    assert policy.judge(view, make_signals(bridged)) == ()


def test_completions_go_only_to_fast_targets_that_accept_them():
    policy = CapabilityPolicy(CapabilityPolicy.Config())
    view = make_view({"prompt": "def"}, Dialect.COMPLETIONS)
    lacking = stand(make_target("other", accepts=frozenset({Feature.TEXT})))

    opinions = policy.judge(view, make_signals(stand(make_target()), lacking, stand(make_target("sage", Tier.DEEP))))

    assert {opinion.target for opinion in opinions} == {"other", "sage"}


def test_an_unknown_previous_response_rules_out_targets_that_do_not_speak_responses():
    view = make_view({"input": "go on", "previous_response_id": "resp_theirs"}, Dialect.RESPONSES)
    chat, native = make_target(), make_target("sage", Tier.DEEP, speaks=frozenset({Dialect.RESPONSES}))

    (opinion,) = CapabilityPolicy(CapabilityPolicy.Config()).judge(view, make_signals(stand(chat), stand(native)))

    assert opinion.target == "spark"
    assert "previous_response_id" in opinion.because


def test_a_file_by_id_rules_out_targets_of_other_dialects():
    part = {"type": "input_file", "file_id": "file_1"}
    view = make_view({"input": [{"role": "user", "content": [part]}]}, Dialect.RESPONSES)
    chat, native = make_target(), make_target("sage", Tier.DEEP, speaks=frozenset({Dialect.RESPONSES}))

    (opinion,) = CapabilityPolicy(CapabilityPolicy.Config()).judge(view, make_signals(stand(chat), stand(native)))

    assert (opinion.target, opinion.lasting) == ("spark", True)
    assert opinion.because == "the request contains a file by id, which needs a target that speaks responses"


RESPONSES_ONLY = frozenset({Dialect.RESPONSES})
SEARCH = {"input": "x", "tools": [{"type": "function", "name": "f"}, {"type": "web_search"}]}


def ruled_out(view, *statuses) -> list[str]:
    return [opinion.target for opinion in CapabilityPolicy(CapabilityPolicy.Config()).judge(view, make_signals(*statuses))]


def test_a_hosted_tool_prefers_a_target_of_the_same_tier_that_may_run_it():
    bridged, native, deep = make_target(), make_target("host", speaks=RESPONSES_ONLY), make_target("sage", Tier.DEEP)
    view = make_view(SEARCH, Dialect.RESPONSES)

    assert ruled_out(view, stand(bridged), stand(native), stand(deep)) == ["spark"]
    assert ruled_out(view, stand(bridged), stand(deep)) == []
    plain = make_view({**SEARCH, "tools": SEARCH["tools"][:1]}, Dialect.RESPONSES)
    assert ruled_out(plain, stand(bridged), stand(native)) == []


def test_a_host_that_is_closed_or_too_small_is_not_preferred():
    view, bridged = make_view(SEARCH, Dialect.RESPONSES), stand(make_target())
    closed = replace(stand(make_target("host", speaks=RESPONSES_ONLY)), closed_seconds=3.0)
    small = stand(make_target("host", speaks=RESPONSES_ONLY, window_tokens=1))

    assert "spark" not in ruled_out(view, bridged, closed)
    assert "spark" not in ruled_out(view, bridged, small)


def test_tools_that_a_target_runs_are_known_in_every_dialect():
    message = {"max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}
    tools = [{"name": "f", "input_schema": {}}, {"type": "bash_20250124", "name": "bash"}]
    search = {"type": "web_search_20250305", "name": "web_search"}

    assert make_view({**message, "tools": tools}, Dialect.MESSAGES).hosted == ""
    assert make_view({**message, "tools": [*tools, search]}, Dialect.MESSAGES).hosted == "web_search_20250305"
    assert make_view({"messages": message["messages"], "web_search_options": {}}).hosted == "web_search_options"
    assert make_view({"input": "x", "tools": [{"type": "shell"}]}, Dialect.RESPONSES).hosted == ""
    assert make_view(SEARCH, Dialect.RESPONSES).hosted == "web_search"
    assert make_view({"input": "x", "tools": [{"type": ["odd"]}]}, Dialect.RESPONSES).hosted == ""
