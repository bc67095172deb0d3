"""A key that a target echoes, in every spelling that a host would use."""

import json
from urllib.parse import quote, quote_plus

import pytest

from router.contract.secret import Secret
from router.dispatch.keys import NO_KEY, KeyGuard, guard_for

PLAIN, ODD = "sk-upstream-canary", 'key/with+odd=long_part_of_it"'


@pytest.mark.parametrize("key", [PLAIN, ODD])
@pytest.mark.parametrize(
    "spell",
    [
        lambda key: key,
        lambda key: quote(key, safe=""),
        quote_plus,
        lambda key: quote(key, safe="").lower() if key is ODD else key,
        lambda key: json.dumps(key)[1:-1],
        lambda key: json.dumps(key)[1:-1].replace("/", "\\/"),
        lambda key: "".join(f"\\u{ord(letter):04x}" if not letter.isalnum() else letter for letter in key),
    ],
)
def test_a_key_is_hidden_however_it_is_spelled(key, spell):
    guard = KeyGuard(key)
    body = f'{{"error": "bad header Bearer {spell(key)}, sorry"}}'.encode()

    assert guard.clean(body) == b'{"error": "bad header Bearer ***, sorry"}'


def test_what_holds_no_key_stays_as_it_is():
    guard = KeyGuard(ODD)

    assert guard.clean(b"long_part_of_it is no key") == b"long_part_of_it is no key"
    assert NO_KEY.clean(b"*** \xff\xfe\xff") == b"*** \xff\xfe\xff"


def test_the_mark_is_a_part_of_the_key_that_no_spelling_changes():
    assert KeyGuard(PLAIN).mark == PLAIN.encode()
    assert KeyGuard(ODD).mark == b"long_part_of_it"


@pytest.mark.parametrize("key", ["ollama", "EMPTY", "sk-1", "", "lm-studio"])
def test_a_word_that_stands_for_no_key_is_not_looked_for_in_answers(key):
    guard = KeyGuard(key)

    assert guard.mark not in f"the {key} server".encode()
    assert guard.split_end(b"the " + key.encode()[:3]) == 4 + len(key[:3])


def test_a_short_key_is_hidden_in_a_refusal():
    assert KeyGuard("k3y-5678").clean(b"bad key k3y-5678") == b"bad key ***"


def test_headers_that_hold_the_key_are_cleaned_and_others_are_the_same():
    guard, harmless = KeyGuard(PLAIN), (("x-request-id", "r1"),)

    assert guard.clean_headers(harmless) == harmless
    assert guard.clean_headers((*harmless, ("x-ratelimit-key", f"for {PLAIN}"))) == (*harmless, ("x-ratelimit-key", "for ***"))


def test_the_beginning_of_a_key_at_the_end_of_a_piece_is_found():
    guard = KeyGuard(PLAIN)

    assert guard.split_end(b"bad header sk-up") == len(b"bad header ")
    assert guard.split_end(b"bad header") == len(b"bad header")
    assert guard.split_end(b"s") == 0


def test_a_guard_prints_without_its_key():
    assert PLAIN not in repr(KeyGuard(PLAIN))


def test_other_secrets_of_a_target_are_hidden_too():
    guard = guard_for(Secret("sk-upstream-canary"), [Secret("sk-upstream-canary"), Secret("gateway-canary")])

    assert guard.clean(b"sk-upstream-canary and gateway-canary") == b"*** and ***"
    assert guard.mark == KeyGuard("sk-upstream-canary").mark


def test_without_a_key_another_secret_is_watched_for():
    assert guard_for(None, [Secret("caller"), Secret("gateway-canary")]).mark == b"gateway-canary"
    assert guard_for(None, ()) is NO_KEY
