import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as some

from router.contract.caller import LOCAL, Caller, SessionKey
from router.limits.fair import Shares, equal_part

A, B, C = (SessionKey(LOCAL, name) for name in "abc")
REMOTE = SessionKey(Caller("remote"), "a")
PART = 1 / 12
"""Of a quota of twelve requests a minute."""


class Ask:
    def __init__(self, who, number, amount=PART):
        self.who, self.number, self.amount = who, number, amount


def shares_of(*taken, window=60.0):
    """Sessions with what each has taken."""
    shares = Shares(window)
    for who, count in taken:
        for _ in range(count):
            shares.take(who, PART)
    return shares


def order(shares, *asking):
    return [ask.who.session for ask in shares.line_up([Ask(who, number) for number, who in enumerate(asking)])]


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ([0.2, 0.2], math.inf),
        ([2.0, 2.0], 0.5),
        ([0.1, 2.0], 0.9),
        ([0.1, 0.3, 2.0, 2.0], 0.3),
        ([1.0], math.inf),
        ([1.5], 1.0),
        ([], math.inf),
    ],
)
def test_what_some_do_not_ask_for_is_shared_by_the_rest(asked, part):
    assert equal_part(asked, 1.0) == pytest.approx(part)


def test_least_taken_goes_first_then_first_come():
    shares = shares_of((A, 3), (B, 1))

    assert order(shares, A, B, C) == ["c", "b", "a"]
    assert order(shares_of(), B, A, C) == ["b", "a", "c"]


def test_whoever_is_served_goes_behind_the_others_so_sessions_take_turns():
    assert order(shares_of(), A, A, A, B, B) == ["a", "b", "a", "b", "a"]


def test_callers_take_turns_before_sessions_do():
    shares = shares_of((A, 1))

    told = shares.line_up([Ask(who, number) for number, who in enumerate((B, C, REMOTE, REMOTE))])

    assert [ask.who for ask in told] == [REMOTE, B, REMOTE, C]


def test_without_scarcity_nobody_is_held_back():
    shares = shares_of((A, 10), (B, 1))

    assert shares.may_take(A, PART, free=PART)


def test_who_has_had_its_share_leaves_the_rest_to_who_missed_something():
    shares = shares_of((A, 8), (B, 1))
    for _ in range(8):
        shares.miss(B, PART, 0.0)

    assert not shares.may_take(A, PART, free=3 * PART)
    assert shares.may_take(B, PART, free=3 * PART)


def test_nothing_is_kept_for_who_missed_nothing_or_for_longer_than_a_minute():
    shares = shares_of((A, 9), (B, 1), (C, 1))
    shares.miss(B, PART, 0.0)
    shares.miss(B, PART, 0.0)
    assert not shares.may_take(A, PART, free=PART)

    shares.expire(60.0)

    assert shares.may_take(A, PART, free=PART)


def test_what_is_left_beyond_all_that_is_owed_is_free_for_all():
    shares = shares_of((A, 6), (B, 5))
    for _ in range(5):
        shares.miss(B, PART, 0.0)

    assert not shares.may_take(A, PART, free=PART)
    assert shares.may_take(A, PART, free=2 * PART)


def test_the_first_request_of_a_session_is_within_every_share():
    shares = shares_of((A, 12))
    for _ in range(12):
        shares.miss(A, PART, 0.0)

    assert shares.may_take(B, 0.9, free=0.9)


def test_of_what_is_less_than_a_request_nobody_keeps_anything():
    """Three sessions share four: one each, and the fourth is for whoever comes."""
    shares, part = Shares(60.0), 1 / 4
    for who in (A, B, C):
        shares.take(who, part)
        shares.miss(who, part, 0.0)

    assert shares.may_take(A, part, free=part)


def test_a_caller_with_many_sessions_gets_no_more_than_one_with_one():
    sessions = [SessionKey(LOCAL, f"s{number}") for number in range(5)]
    shares = shares_of(*((who, 1) for who in sessions), (REMOTE, 5))
    for who in (*sessions, REMOTE):
        for _ in range(5):
            shares.miss(who, PART, 0.0)

    assert shares.share_of(REMOTE) == pytest.approx(0.5)
    assert shares.share_of(sessions[0]) == pytest.approx(0.1)


def test_what_was_forgiven_or_given_back_leaves_nothing_behind():
    shares = shares_of((A, 1))
    miss = shares.miss(B, PART, 0.0)

    shares.forgive(miss)
    shares.forgive(miss)
    shares.give_back(A, PART)

    assert shares.taken(A) == (0.0, 0.0)
    assert shares.next_change() is None
    assert shares.share_of(A) == 1.0


@given(
    takes=some.lists(some.tuples(some.sampled_from([A, B, C, REMOTE]), some.booleans()), max_size=60),
    asks=some.lists(some.sampled_from([A, B, C, REMOTE]), max_size=12),
)
def test_nobody_within_its_share_is_held_back_and_who_is_first_in_line_has_taken_least_of_its_caller(takes, asks):
    shares, taken = Shares(60.0), Counter()
    for who, is_missed in takes:
        if is_missed:
            shares.miss(who, PART, 0.0)
        else:
            shares.take(who, PART)
            taken[who] += 1

    for who in taken:
        if shares.taken(who)[1] + PART <= shares.share_of(who):
            assert shares.may_take(who, PART, free=PART)
    line = shares.line_up([Ask(who, number) for number, who in enumerate(asks)])
    assert sorted(ask.number for ask in line) == list(range(len(asks)))
    if line:
        callers = Counter(who.caller for who in taken.elements())
        assert callers[line[0].who.caller] == min(callers[who.caller] for who in asks)
        rivals = [who for who in asks if who.caller == line[0].who.caller]
        assert taken[line[0].who] == min(taken[who] for who in rivals)


@given(some.lists(some.floats(0, 3), min_size=1, max_size=12))
def test_equal_parts_use_all_there_is_where_it_is_not_enough(asked):
    part = equal_part(asked, 1.0)

    given_out = math.fsum(min(amount, part) for amount in asked)
    assert given_out == pytest.approx(min(1.0, math.fsum(asked)))
