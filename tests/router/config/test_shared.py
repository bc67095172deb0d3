"""What routers share: addresses and a secret, none of which a fault shows."""

import pytest

from router.config.shared import check_shared
from router.config.shared_settings import PostgresSettings, SharedSettings, ValkeySettings

URL = "postgresql://tandem:s3cret@db.example:5432/tandem"


def check(url="env:DATABASE", value=URL):
    faults = []
    shared = check_shared(SharedSettings(postgres=PostgresSettings(url=url)), {"DATABASE": value}, faults)
    return shared.postgres, faults


def test_a_database_has_its_address_and_its_limits():
    terms, faults = check()

    assert faults == []
    assert (terms.url.reveal(), terms.timeout_seconds, terms.connections) == (URL, 0.5, 4)
    assert "s3cret" not in repr(terms)


def test_without_the_setting_there_is_none():
    assert check_shared(SharedSettings(), {}, []) is None


@pytest.mark.parametrize(
    ("url", "value", "problem"),
    [
        (URL, "", "must name a variable, since the address may hold a password"),
        ("env:NOT_SET_ANYWHERE", "", "env:NOT_SET_ANYWHERE is not set in the environment, nor in .env next to the config"),
        ("env:DATABASE", "mysql://u:s3cret@h/d", "env:DATABASE does not begin with postgresql://"),
        ("env:DATABASE", "db.example/tandem?s3cret", "env:DATABASE does not begin with postgresql://"),
        ("env:DATABASE", "postgresql://u:s3cret@h:port/d", "env:DATABASE is not a valid address"),
        ("env:DATABASE", "postgresql://u:s3cret@[h/d", "env:DATABASE is not a valid address"),
    ],
)
def test_a_wrong_address_is_a_fault_that_does_not_show_it(url, value, problem):
    faults = check(url, value)[1]

    assert [(fault.path, fault.problem) for fault in faults] == [("shared.postgres.url", problem)]
    assert "s3cret" not in str(faults)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("redis://:s3cret@h:6379/0", ""),
        ("rediss://u:s3cret@h", ""),
        ("unix:///run/valkey.sock", ""),
        ("http://u:s3cret@h", "env:SERVER does not begin with redis://"),
        ("unix://s3cret", "env:SERVER has no absolute path"),
        ("redis://u:s3cret@h/name", "env:SERVER must end with the number of a database, such as /0"),
        ("redis://u:s3cret@h:port/0", "env:SERVER is not a valid address"),
    ],
)
def test_the_address_of_a_valkey_server_is_checked(value, problem):
    faults = []
    terms = check_shared(SharedSettings(valkey=ValkeySettings(url="env:SERVER")), {"SERVER": value}, faults)

    assert [fault.problem for fault in faults] == ([problem] if problem else [])
    assert "s3cret" not in f"{faults} {terms}"


@pytest.mark.parametrize(
    ("secret", "problem"),
    [
        ("x" * 31, "env:SECRET has 31 bytes, and must have 32 or more"),
        ("", "env:SECRET is not set in the environment, nor in .env next to the config"),
        ("x" * 32, ""),
    ],
)
def test_a_secret_has_32_bytes_or_more(secret, problem):
    faults = []
    check_shared(SharedSettings(secret="env:SECRET"), {"SECRET": secret}, faults)

    assert [fault.problem for fault in faults] == ([problem] if problem else [])


def test_a_secret_in_the_file_itself_is_a_fault():
    faults = []
    check_shared(SharedSettings(secret="y" * 40), {}, faults)

    assert [fault.problem for fault in faults] == ["must name a variable"]


def test_a_router_has_the_name_that_it_is_given_or_one_of_its_own():
    named = SharedSettings(replica="blue", secret="env:SECRET")
    unnamed = SharedSettings(secret="env:SECRET")

    assert check_shared(named, {"SECRET": "x" * 32}, []).replica == "blue"
    assert len(check_shared(unnamed, {"SECRET": "x" * 32}, []).replica) > 6
