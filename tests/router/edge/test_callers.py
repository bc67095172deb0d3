"""Who sends a request."""

import pytest

from router.contract.caller import ANYONE, LOCAL, SCRAPER, Caller
from router.contract.errors import Unauthorized
from router.contract.keys import Key, KeyRing, digest_of, make_key
from router.edge import callers
from router.edge.routes import ROUTES, Head
from tests.tools.edge import FakePlan
from tests.tools.logins import chatgpt_login, claude_login
from tests.tools.work import count_calls

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"


def identify(headers, path, *, by_key):
    return callers.identify(FakePlan(takes_callers_keys=by_key), head(headers, path), headers)


def head(headers, path):
    return Head("POST", path, ROUTES.get(path), headers, len(headers), 0, 1, 0, 0, 0)


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer x"}, {"x-api-key": "x"}])
def test_without_targets_that_take_callers_keys_everyone_is_the_local_caller(headers):
    assert identify(headers, CHAT, by_key=False) is LOCAL


@pytest.mark.parametrize("headers", [{}, {"authorization": "Basic x"}, {"authorization": "Bearer "}, {"x-api-key": " "}])
def test_who_brings_no_key_is_the_local_caller(headers):
    assert identify(headers, CHAT, by_key=True) is LOCAL


def test_each_key_is_a_caller_whose_name_does_not_hold_it():
    one, other = (identify({"x-api-key": f"sk-secret-{who}"}, CHAT, by_key=True) for who in "ab")

    assert one != other
    assert "secret" not in one.name + other.name
    assert identify({"authorization": "bearer sk-secret-a"}, RESPONSES, by_key=True) == one


@pytest.mark.parametrize("headers", [claude_login(), chatgpt_login()])
def test_the_login_of_a_plan_names_nobody_since_its_client_renews_it(headers):
    assert identify(headers, RESPONSES, by_key=True) is LOCAL


def test_of_two_keys_the_one_that_goes_to_the_target_counts():
    headers = {"x-api-key": "k", "authorization": "Bearer b"}

    assert identify(headers, MESSAGES, by_key=True) == identify({"x-api-key": "k"}, CHAT, by_key=True)
    assert identify(headers, CHAT, by_key=True) == identify({"x-api-key": "b"}, CHAT, by_key=True)
    sent = {**headers, "x-tandem-upstream-key": "u"}
    assert identify(sent, CHAT, by_key=True) == identify({"x-api-key": "u"}, CHAT, by_key=True)


@pytest.fixture
def key():
    return make_key()


@pytest.fixture
def plan(key):
    return FakePlan(keys=KeyRing([Key(key.id, Caller("ada"), key.digest)], {}), takes_callers_keys=True)


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer {}"},
        {"authorization": "bearer  {}"},
        {"x-api-key": "{}"},
        {"x-tandem-key": "{}", "authorization": "Bearer login", "x-api-key": "other"},
    ],
)
def test_a_caller_is_known_by_the_key_in_any_of_the_headers(plan, key, headers):
    asked = head({name: value.format(key.text) for name, value in headers.items()}, CHAT)

    assert callers.identify(plan, asked, asked.headers) == Caller("ada")
    assert asked.key == key.id


def test_the_key_is_taken_out_of_the_headers_and_still_known_on_the_next_request(plan, key):
    asked = head({"authorization": f"Bearer {key.text}", "x-api-key": "other", "x-tandem-upstream-key": "mine"}, CHAT)

    first = callers.identify(plan, asked, asked.headers)

    assert asked.headers == {"x-tandem-upstream-key": "mine"}
    assert callers.identify(plan, asked, asked.headers) == first == Caller("ada")


def test_a_login_stays_next_to_the_key_in_the_header_for_it(plan, key):
    asked = head({"x-tandem-key": key.text, "authorization": "Bearer login", "x-app": "cli"}, CHAT)

    first = callers.identify(plan, asked, asked.headers)

    assert asked.headers == {"authorization": "Bearer login", "x-app": "cli"}
    assert callers.identify(plan, asked, asked.headers) == first == Caller("ada")


def test_a_wrong_key_in_the_header_for_it_is_refused_though_another_header_has_a_valid_one(plan, key):
    asked = head({"x-tandem-key": make_key().text, "authorization": f"Bearer {key.text}"}, CHAT)

    with pytest.raises(Unauthorized):
        callers.identify(plan, asked, asked.headers)


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer"}, {"x-api-key": "sk-another"}, {"x-tandem-key": "tdm_"}])
@pytest.mark.parametrize("path", [CHAT, "/v1/models", "/tandem/stats", "/nothing"])
def test_who_brings_no_key_of_this_router_is_refused_on_every_route_but_the_open_ones(plan, headers, path):
    with pytest.raises(Unauthorized):
        callers.identify(plan, head(headers, path), headers)

    assert callers.identify(plan, head(headers, "/healthz"), headers) is ANYONE


def test_a_key_that_is_no_longer_on_the_ring_ends_with_it(plan, key):
    asked = head({"x-api-key": key.text}, RESPONSES)
    callers.identify(plan, asked, asked.headers)

    with pytest.raises(Unauthorized):
        callers.identify(FakePlan(keys=KeyRing([], {})), asked, asked.headers)


def test_a_key_stops_working_at_the_moment_at_which_it_expires(monkeypatch, key):
    now = [999.9]
    monkeypatch.setattr(callers.time, "time", lambda: now[0])
    plan = FakePlan(keys=KeyRing([Key(key.id, Caller("ada"), key.digest, 1_000.0)], {}))
    asked = head({"x-api-key": key.text}, RESPONSES)
    assert callers.identify(plan, asked, asked.headers) == Caller("ada")

    now[0] = 1_000.0

    with pytest.raises(Unauthorized):
        callers.identify(plan, asked, asked.headers)


def test_refusing_takes_the_same_work_whatever_is_wrong_with_a_key(key):
    old = make_key()
    ring = KeyRing([Key(key.id, Caller("ada"), key.digest), Key(old.id, Caller("bob"), old.digest, 1.0)], {})
    plan = FakePlan(keys=ring)
    wrong = {"unknown": make_key().text, "secret": make_key(key.id).text, "expired": old.text, "malformed": f"{key.text}A"}

    def refuse(token):
        asked = head({"authorization": f"Bearer {token}"}, CHAT)
        with pytest.raises(Unauthorized):
            callers.identify(plan, asked, asked.headers)

    work = {kind: count_calls(lambda token=token: refuse(token)) for kind, token in wrong.items()}

    assert len(set(work.values())) == 1, work


def test_a_key_that_was_given_to_someone_else_is_theirs_at_the_next_request(plan, key):
    asked = head({"x-api-key": key.text}, RESPONSES)
    callers.identify(plan, asked, asked.headers)

    renamed = FakePlan(keys=KeyRing([Key(key.id, Caller("bob"), key.digest)], {}))

    assert callers.identify(renamed, asked, asked.headers) == Caller("bob")


def test_a_head_that_comes_again_is_not_looked_up_again_until_the_keys_change(key):
    keys = [Key(key.id, Caller("ada"), key.digest)]
    first, second = FakePlan(keys=KeyRing(keys, {})), FakePlan(keys=KeyRing(keys, {}))
    asked = head({"x-api-key": key.text}, RESPONSES)

    work = [count_calls(lambda plan=plan: callers.identify(plan, asked, asked.headers)) for plan in (first, first, second)]

    assert work[1] < work[2] < work[0]


@pytest.mark.parametrize("headers", [{"authorization": "Bearer s3cret"}, {"x-api-key": "s3cret"}])
def test_the_key_of_the_metrics_opens_the_metrics_and_nothing_else(plan, headers):
    plan.metrics_key = digest_of("s3cret")

    assert callers.identify(plan, head(headers, "/metrics"), headers) is SCRAPER
    for path in (CHAT, "/tandem/stats", "/metrics/", "/v1/metrics"):
        with pytest.raises(Unauthorized):
            callers.identify(plan, head(headers, path), headers)


@pytest.mark.parametrize("metrics_key", [digest_of("s3cret"), None])
@pytest.mark.parametrize(
    "headers", [{}, *({"authorization": f"Bearer {token}"} for token in ("", "s3cre", "s3crets", "tdm_00000000_x"))]
)
def test_another_key_or_none_does_not_open_the_metrics(plan, headers, metrics_key):
    plan.metrics_key = metrics_key

    with pytest.raises(Unauthorized):
        callers.identify(plan, head(headers, "/metrics"), headers)


def test_callers_with_keys_open_the_metrics_as_themselves(plan, key):
    plan.metrics_key = digest_of("s3cret")
    headers = {"authorization": f"Bearer {key.text}"}

    assert callers.identify(plan, head(headers, "/metrics"), headers) == Caller("ada")
