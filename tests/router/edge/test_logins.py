"""Logins of the page."""

import pytest

from router.contract.caller import Caller
from router.contract.keys import Key, KeyRing, make_key
from router.edge.logins import COOKIE, LOGIN_SECONDS, MAX_LOGINS, MAX_LOGINS_OF_A_KEY, Logins, read_login, write_cookie

NOW = 1_000.0


def key_of(name: str, expires_at: float | None = None) -> Key:
    made = make_key()
    return Key(made.id, Caller(name), made.digest, expires_at)


def cookie(value: str) -> str:
    return f"{COOKIE}={value}"


def ring(*keys: Key) -> KeyRing:
    return KeyRing(keys, {})


def test_a_login_is_found_by_its_cookie_until_its_time_is_over():
    ada = key_of("ada")
    logins, keys = Logins(), ring(ada)

    value = cookie(logins.begin(ada, NOW))

    assert logins.find(value, keys, NOW + LOGIN_SECONDS - 1) is ada
    assert logins.find(value, keys, NOW + LOGIN_SECONDS) is None


def test_every_login_has_an_id_of_its_own_that_the_table_does_not_hold():
    ada = key_of("ada")
    logins = Logins()

    first, second = logins.begin(ada, NOW), logins.begin(ada, NOW)

    assert first != second
    assert len(first) == len(second) == 43
    assert first.encode() not in logins._logins
    assert all(len(name) == 32 for name in logins._logins)


def test_a_login_ends_with_its_key():
    ada = key_of("ada", expires_at=NOW + 60)
    logins = Logins()
    value = cookie(logins.begin(ada, NOW))
    replaced = Key(ada.id, ada.caller, make_key().digest)

    assert logins.find(value, ring(ada), NOW + 59) is ada
    assert logins.find(value, ring(ada), NOW + 60) is None
    assert logins.find(value, ring(), NOW) is None
    assert logins.find(value, ring(replaced), NOW) is None


def test_a_key_that_was_given_an_end_after_the_login_ends_it_then():
    ada = key_of("ada")
    logins = Logins()
    value = cookie(logins.begin(ada, NOW))
    rotated = Key(ada.id, ada.caller, ada.digest, expires_at=NOW + 5)

    assert logins.find(value, ring(rotated), NOW + 4) is rotated
    assert logins.find(value, ring(rotated), NOW + 5) is None


def test_logging_out_ends_that_login_alone():
    ada = key_of("ada")
    logins, keys = Logins(), ring(ada)
    here, there = cookie(logins.begin(ada, NOW)), cookie(logins.begin(ada, NOW))

    logins.end(here)

    assert logins.find(here, keys, NOW) is None
    assert logins.find(there, keys, NOW) is ada


def test_a_caller_who_logs_in_again_and_again_ends_its_own_logins_and_nobody_elses():
    ada, bob = key_of("ada"), key_of("bob")
    logins, keys = Logins(), ring(ada, bob)
    of_bob = cookie(logins.begin(bob, NOW))

    values = [cookie(logins.begin(ada, NOW)) for _ in range(MAX_LOGINS_OF_A_KEY + 3)]

    assert [logins.find(value, keys, NOW) for value in values[:3]] == [None] * 3
    assert all(logins.find(value, keys, NOW) is ada for value in values[3:])
    assert logins.find(of_bob, keys, NOW) is bob


def test_the_table_is_bounded_and_the_oldest_login_ends_first():
    many = [key_of(str(number)) for number in range(MAX_LOGINS + 1)]
    logins, keys = Logins(), ring(*many)

    values = [cookie(logins.begin(key, NOW)) for key in many]

    assert len(logins) == MAX_LOGINS
    assert logins.find(values[0], keys, NOW) is None
    assert logins.find(values[1], keys, NOW) is many[1]


def test_logins_whose_time_is_over_make_room():
    ada, bob = key_of("ada"), key_of("bob")
    logins = Logins()
    logins.begin(ada, NOW)

    logins.begin(bob, NOW + LOGIN_SECONDS)

    assert len(logins) == 1


@pytest.mark.parametrize(
    ("header", "value"),
    [
        (f"{COOKIE}=abc", "abc"),
        (f"theme=dark; {COOKIE}=abc; other=1", "abc"),
        (f"  {COOKIE}=a=b ", "a=b"),
        (f"{COOKIE}=abc; {COOKIE}=evil", ""),
        (f"x{COOKIE}=abc", ""),
        (f"{COOKIE}", ""),
        ("", ""),
        (";;;=;", ""),
    ],
)
def test_the_cookie_is_read_only_where_it_comes_once(header, value):
    assert read_login(header) == value


def test_an_unknown_or_odd_cookie_is_nobodys():
    ada = key_of("ada")
    logins, keys = Logins(), ring(ada)
    logins.begin(ada, NOW)

    for odd in ("", cookie(""), cookie("x"), cookie("\udcff\xff"), cookie("k" * 100_000)):
        assert logins.find(odd, keys, NOW) is None


def test_the_cookie_is_for_this_site_and_not_for_scripts():
    plain, secure = write_cookie("abc", is_secure=False), write_cookie("abc", is_secure=True)

    assert plain == f"{COOKIE}=abc; HttpOnly; SameSite=Strict; Path=/; Max-Age=43200"
    assert secure == f"{plain}; Secure"
    assert "Max-Age=0" in write_cookie("", is_secure=False)
