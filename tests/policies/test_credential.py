"""A credential stays with its vendor."""

from msgspec.structs import replace

from policies.credential import CredentialPolicy
from router.contract.opinions import Insist, Rank
from router.contract.words import Dialect, Operation, Tier, Vendor
from tests.tools.logins import chatgpt_login, claude_login
from tests.tools.values import ask, make_signals, make_target, stand


def plan_of(name: str, vendor: Vendor, dialect: Dialect, tier: Tier = Tier.DEEP):
    speaks, vendors = frozenset({dialect}), frozenset({vendor})
    return stand(make_target(name, tier, takes_callers_key=True, speaks=speaks, accepts_keys_of=vendors, is_plan=True))


SPARK = stand(make_target())
CLAUDE = plan_of("claude", Vendor.ANTHROPIC, Dialect.MESSAGES)
CHATGPT = plan_of("chatgpt", Vendor.CHATGPT, Dialect.RESPONSES)


def judge(headers, dialect, *statuses, operation=Operation.CREATE):
    request = replace(ask(), headers=headers, dialect=dialect, operation=operation)
    return CredentialPolicy().judge(request, make_signals(*statuses or (SPARK, CLAUDE, CHATGPT)))


def test_targets_of_other_vendors_are_ruled_out_for_good():
    (opinion,) = judge(claude_login(), Dialect.MESSAGES)

    assert (opinion.target, opinion.lasting) == ("chatgpt", True)
    assert "plan of ChatGPT" in opinion.because
    assert [opinion.target for opinion in judge(chatgpt_login(), Dialect.RESPONSES)] == ["claude"]


def test_a_request_without_a_credential_is_told_by_the_attempt_what_to_send():
    assert judge({}, Dialect.MESSAGES) == ()


def test_a_count_with_a_login_is_asked_of_its_plan_on_deep_first():
    small = plan_of("a-small-one", Vendor.ANTHROPIC, Dialect.MESSAGES, Tier.FAST)

    opinions = judge(claude_login(), Dialect.MESSAGES, small, CLAUDE, SPARK, operation=Operation.COUNT_TOKENS)

    assert opinions == (Insist("claude counts for its own plan", Rank.RUNNING_TURN, target="claude", yields=True),)
    (only,) = judge(claude_login(), Dialect.MESSAGES, small, SPARK, operation=Operation.COUNT_TOKENS)
    assert only.target == "a-small-one"


def test_a_count_without_a_login_is_asked_of_no_plan():
    assert not any(
        isinstance(opinion, Insist)
        for headers in ({}, chatgpt_login(), {"x-api-key": "sk-ant-api03-mine"})
        for opinion in judge(headers, Dialect.MESSAGES, operation=Operation.COUNT_TOKENS)
    )
