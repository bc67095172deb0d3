"""Keys: made at random, known by their digests."""

import re

import pytest

from router.contract.caller import LOCAL, Caller
from router.contract.errors import Unauthorized
from router.contract.keys import OWN_ID, Key, KeyRing, digest_of, make_key, read_token, rights_of, split_key
from router.contract.rights import EVERYTHING, NOTHING, Rights

NOW = 1_000.0
RIGHTS = Rights()


def ring_of(key, expires_at=None):
    return KeyRing([Key(key.id, Caller("ada"), key.digest, expires_at)], {"ada": RIGHTS})


def test_a_key_has_an_id_to_show_and_a_secret_of_256_bits():
    key = make_key()

    assert re.fullmatch(r"tdm_[0-9a-f]{8}_[A-Za-z0-9_-]{43}", key.text)
    key_id, secret = split_key(key.text)
    assert (key_id, digest_of(secret)) == (key.id, key.digest)
    assert make_key().text != key.text


def test_a_ring_finds_whose_key_it_is():
    key = make_key()

    assert ring_of(key).find(key.text, NOW).caller == Caller("ada")


@pytest.mark.parametrize("change", ["none", "unknown", "secret", "malformed", "expired", "longer"])
def test_every_wrong_key_is_refused_in_the_same_words(change):
    key = make_key()
    other = make_key(key.id)
    token = {
        "none": "",
        "unknown": make_key("abcdef01" if key.id != "abcdef01" else "abcdef02").text,
        "secret": other.text,
        "malformed": key.text[:-1],
        "expired": key.text,
        "longer": key.text + "A" * (1 << 20),
    }[change]

    with pytest.raises(Unauthorized) as refused:
        ring_of(key, NOW if change == "expired" else NOW + 1).find(token, NOW)

    assert refused.value.message == Unauthorized().message


def test_the_routers_own_key_may_do_everything():
    own, key = make_key(OWN_ID), make_key()
    ring = ring_of(key).with_own(Key(own.id, LOCAL, own.digest))

    assert ring.find(own.text, NOW).caller is LOCAL
    assert ring.rights == {"ada": Rights(), "local": EVERYTHING}
    assert ring.find(key.text, NOW).caller == Caller("ada")


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ({}, ""),
        ({"authorization": "Bearer tdm_a"}, "tdm_a"),
        ({"authorization": "Basic tdm_a"}, ""),
        ({"x-api-key": " tdm_b "}, "tdm_b"),
        ({"authorization": "Bearer tdm_a", "x-api-key": "tdm_b"}, "tdm_a"),
        ({"authorization": "Bearer oauth-token", "x-api-key": "tdm_b"}, "tdm_b"),
        ({"authorization": "Bearer other"}, "other"),
        ({"x-tandem-key": " tdm_c ", "authorization": "Bearer tdm_a", "x-api-key": "tdm_b"}, "tdm_c"),
        ({"x-tandem-key": "wrong", "authorization": "Bearer tdm_a"}, "wrong"),
        ({"x-tandem-key": " ", "authorization": "Bearer tdm_a"}, "tdm_a"),
    ],
)
def test_a_key_comes_in_one_of_three_headers(headers, token):
    assert read_token(headers) == token


@pytest.mark.parametrize(
    ("headers", "left"),
    [
        ({"authorization": "Bearer login", "x-api-key": "other"}, {}),
        ({"x-tandem-key": "", "authorization": "Bearer login"}, {}),
        ({"x-tandem-key": "ours", "authorization": "Bearer login", "a": "b"}, {"authorization": "Bearer login", "a": "b"}),
        ({"x-tandem-key": "ours", "x-api-key": "other"}, {"x-api-key": "other"}),
        ({"x-tandem-key": "ours", "authorization": "Bearer tdm_a", "x-api-key": "other"}, {"x-api-key": "other"}),
    ],
)
def test_credentials_stay_only_next_to_a_key_in_the_header_for_it(headers, left):
    assert KeyRing([], {}).clean(headers) == left


def test_headers_lose_keys_that_do_not_belong_there_but_not_a_targets_key_of_another_router():
    ours, theirs = make_key(), make_key()
    ring = KeyRing([Key(ours.id, Caller("ada"), ours.digest)], {})

    plain, masked = {"a": "b"}, f"tdm_{ours.id}_***"

    assert ring.clean(plain) == plain
    assert ring.clean({"cookie": f"x={ours.text}"}) == {"cookie": f"x={masked}"}
    assert ring.clean({"x-tandem-upstream-key": ours.text}) == {"x-tandem-upstream-key": masked}
    assert ring.clean({"x-tandem-upstream-key": theirs.text}) == {"x-tandem-upstream-key": theirs.text}


def test_the_log_learns_why_a_key_was_refused():
    key, revoked, own = make_key(), make_key(), make_key(OWN_ID)
    filed = KeyRing([Key(one.id, Caller("ada"), one.digest, NOW) for one in (key, revoked)], {})

    ring = filed.without({revoked.digest, make_key().digest}).with_own(Key(own.id, LOCAL, own.digest))

    assert ring.explain(key.text) == "expired"
    assert ring.explain(f"tdm_{key.id}_{revoked.text[13:]}") == "wrong secret"
    assert ring.explain(revoked.text) == "revoked at another router"
    assert ring.explain(make_key().text) == "not in the key file"


@pytest.mark.parametrize(
    ("caller", "key_id", "now", "rights"),
    [
        ("ada", "own", 0.0, RIGHTS),
        ("ada", None, 0.0, RIGHTS),  # known before the router had keys
        ("ada", "own", 100.0, NOTHING),
        ("ada", "ffffffff", 0.0, NOTHING),
        ("bob", None, 0.0, NOTHING),
    ],
)
def test_a_caller_has_its_rights_as_long_as_its_key_works(caller, key_id, now, rights):
    key = make_key()
    ring = ring_of(key, expires_at=100.0)

    assert rights_of(ring, Caller(caller), key.id if key_id == "own" else key_id, now) is rights


def test_callers_may_do_everything_where_they_need_no_key():
    assert rights_of(None, Caller("bob"), None, 0.0) is EVERYTHING


def test_a_caller_without_rights_may_do_nothing():
    assert not any((NOTHING.tiers, NOTHING.may_force, NOTHING.is_admin, NOTHING.may_delegate))
