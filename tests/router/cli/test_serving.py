"""What one process does around its requests: file handles. Its start, signals and end are tested as a process of `serve`."""

import resource

import pytest

from router.cli.serving import allow_handles


@pytest.fixture
def limits(monkeypatch):
    now = [(256, 10_000)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: now[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: now.append(pair))
    return now


def test_the_limit_is_raised_to_two_handles_for_each_request_and_one_for_each_socket(limits):
    assert allow_handles(1_024, 1_000) == 2 * 1_024 + 1_000 + 200
    assert limits[-1][1] == 10_000


@pytest.mark.parametrize("pair", [(256, 1_000), (256, resource.RLIM_INFINITY)])
def test_it_is_raised_no_further_than_it_may_be(limits, pair):
    limits.append(pair)

    assert allow_handles(1_024, 0) == (1_000 if pair[1] == 1_000 else 2_248)


@pytest.mark.parametrize("soft", [20_000, resource.RLIM_INFINITY])
def test_a_limit_that_is_high_enough_is_left_alone(limits, soft):
    limits.append((soft, resource.RLIM_INFINITY))

    assert allow_handles(1_024, 1_000) == soft
    assert len(limits) == 2


def test_a_system_that_refuses_is_no_error(limits, monkeypatch):
    def refuse(*_):
        raise ValueError

    monkeypatch.setattr(resource, "setrlimit", refuse)

    assert allow_handles(1_024, 0) == 256
