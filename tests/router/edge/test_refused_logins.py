import pytest

from router.contract.errors import CallerKey, UpstreamAuth, UpstreamRefused
from router.edge.refused_logins import RefusedLogins
from tests.tools.logins import chatgpt_login, claude_login


def refusal(status: int = 401) -> UpstreamRefused:
    return UpstreamRefused("chatgpt", status, b"{}", "application/json")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_refused_login_is_refused_again_for_a_while_and_no_other():
    clock = Clock()
    logins, error = RefusedLogins(clock), refusal()

    assert logins.note(chatgpt_login(), error)

    for _ in range(3):
        with pytest.raises(UpstreamRefused) as refused:
            logins.check(chatgpt_login())
        assert refused.value is error
    logins.check(chatgpt_login("bob"))
    logins.check(claude_login())
    logins.check({})
    clock.now = 31.0
    logins.check(chatgpt_login())


@pytest.mark.parametrize("error", [None, refusal(429), refusal(403), CallerKey("none"), UpstreamAuth("spark", "no key")])
def test_other_errors_say_nothing_about_a_login(error):
    logins = RefusedLogins()

    assert not logins.note(chatgpt_login(), error)

    logins.check(chatgpt_login())


def test_only_so_many_are_remembered_the_newest_ones():
    logins = RefusedLogins()
    for number in range(300):
        logins.note(chatgpt_login(f"person-{number}"), refusal())

    logins.check(chatgpt_login("person-43"))
    with pytest.raises(UpstreamRefused):
        logins.check(chatgpt_login("person-44"))


def test_no_token_is_kept():
    logins = RefusedLogins()
    logins.note(chatgpt_login(), refusal())

    assert "canary" not in repr(vars(logins))
