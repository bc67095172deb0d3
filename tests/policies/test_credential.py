"""A credential stays with its vendor."""

from msgspec.structs import replace

from policies.credential import CredentialPolicy
from router.contract.words import Dialect, Tier, Vendor
from tests.tools.logins import chatgpt_login, claude_login
from tests.tools.values import ask, make_signals, make_target, stand


def plan_of(name: str, vendor: Vendor, dialect: Dialect):
    speaks, vendors = frozenset({dialect}), frozenset({vendor})
    return stand(make_target(name, Tier.DEEP, takes_callers_key=True, speaks=speaks, accepts_keys_of=vendors, is_plan=True))


SPARK = stand(make_target())
CLAUDE = plan_of("claude", Vendor.ANTHROPIC, Dialect.MESSAGES)
CHATGPT = plan_of("chatgpt", Vendor.CHATGPT, Dialect.RESPONSES)


def judge(headers, dialect):
    return CredentialPolicy().judge(replace(ask(), headers=headers, dialect=dialect), make_signals(SPARK, CLAUDE, CHATGPT))


def test_targets_of_other_vendors_are_ruled_out_for_good():
    (opinion,) = judge(claude_login(), Dialect.MESSAGES)

    assert (opinion.target, opinion.lasting) == ("chatgpt", True)
    assert "plan of ChatGPT" in opinion.because
    assert [opinion.target for opinion in judge(chatgpt_login(), Dialect.RESPONSES)] == ["claude"]


def test_a_request_without_a_credential_is_told_by_the_attempt_what_to_send():
    assert judge({}, Dialect.MESSAGES) == ()
