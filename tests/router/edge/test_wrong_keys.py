"""Wrong keys, counted by address, and logins that a plan refused."""

import pytest

from router.contract.errors import CallerKey, RateLimited, Sent, Unauthorized, UpstreamAuth, UpstreamRefused
from router.contract.words import Dialect
from router.edge.wrong_keys import (
    LOGIN_SECONDS,
    MAX_ADDRESSES,
    MAX_LOGINS,
    MAX_WRONG,
    WINDOW_SECONDS,
    RefusedLogins,
    WrongKeys,
    site_of,
)
from tests.tools.logins import chatgpt_login, claude_login


def send_wrong(table, times, address="10.0.0.1", has_key=True):
    return [table.refuse(address, now, has_key=has_key) for now in times]


def test_the_first_20_wrong_keys_within_a_minute_get_401_and_the_next_the_true_wait():
    table = WrongKeys()

    first = send_wrong(table, range(MAX_WRONG))
    (over,) = send_wrong(table, [30.0])

    assert {type(refusal) for refusal in first} == {Unauthorized}
    assert isinstance(over, RateLimited)
    assert over.retry_after_seconds == WINDOW_SECONDS - 30


def test_after_that_wait_one_wrong_key_is_answered_and_the_next_waits_again():
    table = WrongKeys()
    send_wrong(table, range(MAX_WRONG))

    refusals = send_wrong(table, [WINDOW_SECONDS - 0.1, WINDOW_SECONDS, WINDOW_SECONDS])

    assert [type(refusal) for refusal in refusals] == [RateLimited, Unauthorized, RateLimited]


def test_wrong_keys_that_come_slower_than_that_never_wait():
    assert {type(refusal) for refusal in send_wrong(WrongKeys(), range(0, 3_000, 3))} == {Unauthorized}


def test_another_address_is_not_concerned():
    table = WrongKeys()
    send_wrong(table, range(MAX_WRONG))

    assert isinstance(table.refuse("10.0.0.2", 20.0, has_key=True), Unauthorized)


def test_requests_without_any_key_are_not_counted():
    table = WrongKeys()

    assert {type(refusal) for refusal in send_wrong(table, range(50), has_key=False)} == {Unauthorized}
    assert len(table) == 0


def test_the_table_is_bounded_and_forgets_who_was_wrong_longest_ago():
    table = WrongKeys()
    send_wrong(table, [0.0] * (MAX_WRONG - 1), "10.0.0.1")
    send_wrong(table, [0.0] * MAX_WRONG, "10.0.0.2")
    for number in range(MAX_ADDRESSES - 2):
        table.refuse(f"10.1.{number // 256}.{number % 256}", 1.0, has_key=True)
    table.refuse("10.0.0.1", 1.0, has_key=True)

    table.refuse("10.2.0.0", 1.0, has_key=True)

    assert len(table) == MAX_ADDRESSES
    assert isinstance(table.refuse("10.0.0.1", 2.0, has_key=True), RateLimited)
    assert isinstance(table.refuse("10.0.0.2", 2.0, has_key=True), Unauthorized)


@pytest.mark.parametrize(
    ("address", "site"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2::9", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("", ""),
        ("/run/tandem.sock", ""),
    ],
)
def test_one_machine_has_one_place_in_the_table(address, site):
    assert site_of(address) == site


RESPONSES = Dialect.RESPONSES


def refusal(status: int = 401, *, is_plans: bool = True) -> UpstreamRefused:
    error = UpstreamRefused("chatgpt", status, b"{}", "application/json")
    error.as_sent = Sent(status, (), b"{}") if is_plans else None
    return error


def test_a_refused_login_is_refused_again_for_a_while_and_no_other():
    logins, error = RefusedLogins(), refusal()

    assert logins.note(chatgpt_login(), RESPONSES, error, 0.0)

    for _ in range(3):
        with pytest.raises(UpstreamRefused) as refused:
            logins.check(chatgpt_login(), RESPONSES, 0.0)
        assert refused.value is error
    logins.check(chatgpt_login("bob"), RESPONSES, 0.0)
    logins.check(claude_login(), RESPONSES, 0.0)
    logins.check({}, RESPONSES, 0.0)
    logins.check(chatgpt_login(), RESPONSES, LOGIN_SECONDS)


@pytest.mark.parametrize(
    "error", [None, refusal(429), refusal(is_plans=False), CallerKey("none"), UpstreamAuth("spark", "no key")]
)
def test_other_errors_say_nothing_about_a_login(error):
    logins = RefusedLogins()

    assert not logins.note(chatgpt_login(), RESPONSES, error, 0.0)

    logins.check(chatgpt_login(), RESPONSES, 0.0)


def test_only_so_many_are_remembered_the_newest_ones():
    logins = RefusedLogins()
    for number in range(MAX_LOGINS + 44):
        logins.note(chatgpt_login(f"person-{number}"), RESPONSES, refusal(), 0.0)

    logins.check(chatgpt_login("person-43"), RESPONSES, 0.0)
    with pytest.raises(UpstreamRefused):
        logins.check(chatgpt_login("person-44"), RESPONSES, 0.0)


def test_no_token_is_kept():
    logins = RefusedLogins()
    logins.note(chatgpt_login(), RESPONSES, refusal(), 0.0)

    assert "canary" not in repr(logins._refused)
