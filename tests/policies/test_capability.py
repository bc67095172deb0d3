"""What a request needs, held against what each target takes."""

from policies.capability import CapabilityConfig, CapabilityPolicy
from router.contract.words import Dialect, Feature, Tier
from tests.tools.values import make_signals, make_target, make_view, stand


def test_capability_names_what_a_target_does_not_take():
    policy = CapabilityPolicy(CapabilityConfig())
    plain = stand(make_target(accepts=frozenset({Feature.TEXT})))
    image = [{"type": "image_url", "image_url": {"url": "x"}}]
    view = make_view({"messages": [{"role": "user", "content": image}], "tools": [{"type": "function"}]})

    lacking = policy.judge(view, make_signals(plain))

    assert "an image and tools" in lacking[0].because
    assert all(opinion.lasting for opinion in lacking)


def test_a_free_form_tool_needs_a_target_that_takes_it_or_a_bridge_that_makes_it_a_function():
    policy = CapabilityPolicy(CapabilityConfig())
    view = make_view({"input": "x", "tools": [{"type": "custom", "name": "patch"}]}, Dialect.RESPONSES)
    accepts = frozenset({Feature.TEXT, Feature.TOOLS})
    native = stand(make_target(accepts=accepts, speaks=frozenset({Dialect.RESPONSES})))
    bridged = stand(make_target(accepts=accepts, speaks=frozenset({Dialect.CHAT})))

    assert "free-form" in policy.judge(view, make_signals(native))[0].because
    assert policy.judge(view, make_signals(bridged)) == ()


def test_completions_go_only_to_fast_targets_that_accept_them():
    policy = CapabilityPolicy(CapabilityConfig())
    view = make_view({"prompt": "def"}, Dialect.COMPLETIONS)
    lacking = stand(make_target("other", accepts=frozenset({Feature.TEXT})))

    opinions = policy.judge(view, make_signals(stand(make_target()), lacking, stand(make_target("sage", Tier.DEEP))))

    assert {opinion.target for opinion in opinions} == {"other", "sage"}


def test_an_unknown_previous_response_rules_out_targets_that_do_not_speak_responses():
    view = make_view({"input": "go on", "previous_response_id": "resp_theirs"}, Dialect.RESPONSES)
    chat, native = make_target(), make_target("sage", Tier.DEEP, speaks=frozenset({Dialect.RESPONSES}))

    (opinion,) = CapabilityPolicy(CapabilityConfig()).judge(view, make_signals(stand(chat), stand(native)))

    assert opinion.target == "spark"
    assert "previous_response_id" in opinion.because


def test_a_file_by_id_rules_out_targets_of_other_dialects():
    part = {"type": "input_file", "file_id": "file_1"}
    view = make_view({"input": [{"role": "user", "content": [part]}]}, Dialect.RESPONSES)
    chat, native = make_target(), make_target("sage", Tier.DEEP, speaks=frozenset({Dialect.RESPONSES}))

    (opinion,) = CapabilityPolicy(CapabilityConfig()).judge(view, make_signals(stand(chat), stand(native)))

    assert (opinion.target, opinion.lasting) == ("spark", True)
    assert opinion.because == "the request contains a file by id, which needs a target that speaks responses"
