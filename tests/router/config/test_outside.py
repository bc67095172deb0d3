"""What a router talks to besides its targets: addresses and secrets, none of which a fault shows."""

import pytest

from router.config.faults import Fault
from router.config.outside import check_alerts, check_shared, check_webhooks, read_trace_headers
from router.config.secrets import SecretChecker
from router.contract.secret import Secret
from router.contract.shared import PostgresTerms, SharedTerms, ValkeyTerms
from router.contract.webhooks import JobEvent, JobWebhook
from tests.conftest import SIMULATED
from tests.tools.configs import faults_in

CANARY = "https://hooks.example/T000/s3cret-canary-0123456789"
URL = "postgresql://tandem:s3cret@db.example:5432/tandem"


def run(check, value, **keys):
    """What a check makes of a setting, and the problems that it finds."""
    faults: list[Fault] = []
    found = check(value, SecretChecker(faults, keys))
    assert not any(
        secret in f"{faults} {found if check is not read_trace_headers else None}" for secret in ("canary", "s3cret")
    )
    return found, [fault.problem for fault in faults]


def test_what_is_not_set_is_not_there():
    assert run(check_alerts, None) == (None, [])
    assert run(check_shared, SharedTerms()) == (None, [])
    assert run(read_trace_headers, None) == ((), [])


def test_an_address_for_alerts_is_read_from_the_environment_or_from_the_file_next_to_the_config(monkeypatch):
    monkeypatch.setenv("HOOK", CANARY)

    found, filed = run(check_alerts, "env:HOOK")[0], run(check_alerts, "env:FILED", FILED=CANARY)[0]

    assert found.reveal() == filed.reveal() == CANARY


@pytest.mark.parametrize(
    ("source", "value", "problem"),
    [
        (CANARY, "", "must be env:NAME"),
        (f"env:{CANARY}", "", "takes the name of a variable"),
        ("env:HOOK", "", "env:HOOK is not set"),
        *(
            ("env:HOOK", value, "does not hold an address")
            for value in ("canary", "ftp://canary/x", "https://", "https://canary:port/", "https://canary/a b", "//canary")
        ),
    ],
)
def test_what_is_not_an_http_address_in_a_variable_is_refused_and_not_shown(source, value, problem):
    (found,) = run(check_alerts, source, HOOK=value)[1]

    assert problem in found


def check_store(store, url="env:DATABASE", value=URL):
    return run(
        check_shared,
        SharedTerms(**{store: {"postgres": PostgresTerms, "valkey": ValkeyTerms}[store](Secret(url))}),
        DATABASE=value,
    )


def test_a_database_has_its_address_and_its_limits():
    shared, problems = check_store("postgres")

    assert problems == []
    assert (shared.postgres.url.reveal(), shared.postgres.timeout_seconds, shared.postgres.connections) == (URL, 0.5, 4)


@pytest.mark.parametrize(("store", "url", "value", "problem"), [
    ("postgres", URL, "", "must name a variable, since the address may hold a password"),
    ("postgres", "env:NOT_SET_ANYWHERE", "", "env:NOT_SET_ANYWHERE is not set in the environment, nor in .env next to the config"),
    ("postgres", "env:DATABASE", "mysql://u:s3cret@h/d", "env:DATABASE does not begin with postgresql://"),
    ("postgres", "env:DATABASE", "postgresql://u:s3cret@h:port/d", "env:DATABASE is not a valid address"),
    ("postgres", "env:DATABASE", "postgresql://u:s3cret@[h/d", "env:DATABASE is not a valid address"),
    ("valkey", "env:DATABASE", "http://u:s3cret@h", "env:DATABASE does not begin with redis://"),
    ("valkey", "env:DATABASE", "unix://s3cret", "env:DATABASE has no absolute path"),
    ("valkey", "env:DATABASE", "redis://u:s3cret@h/name", "env:DATABASE must end with the number of a database, such as /0"),
    ("valkey", "env:DATABASE", "redis://u:s3cret@h:port/0", "env:DATABASE is not a valid address"),
])  # fmt: skip
def test_a_wrong_address_of_a_store_is_a_fault_that_does_not_show_it(store, url, value, problem):
    assert check_store(store, url, value)[1] == [problem]


@pytest.mark.parametrize("value", ["redis://:s3cret@h:6379/0", "rediss://u:s3cret@h", "unix:///run/valkey.sock"])
def test_a_valkey_server_is_known_by_every_form_of_address(value):
    assert check_store("valkey", value=value)[1] == []


@pytest.mark.parametrize(
    ("source", "value", "problem"),
    [
        ("env:SECRET", "x" * 31, ["env:SECRET has 31 bytes, and must have 32 or more"]),
        ("env:SECRET", "", ["env:SECRET is not set in the environment, nor in .env next to the config"]),
        ("env:SECRET", "x" * 32, []),
        ("y" * 40, "", ["must name a variable"]),
    ],
)
def test_a_shared_secret_has_32_bytes_or_more_in_a_variable(source, value, problem):
    assert run(check_shared, SharedTerms(secret=Secret(source)), SECRET=value)[1] == problem


def test_a_router_has_the_name_that_it_is_given_or_one_of_its_own():
    named, unnamed = (run(check_shared, SharedTerms(name, secret=Secret("env:S")), S="x" * 32)[0] for name in ("blue", ""))

    assert named.replica == "blue"
    assert len(unnamed.replica) > 6


@pytest.mark.parametrize("name", ["''", "a b", "a:b", "é", "x" * 65])
def test_a_name_that_cannot_be_part_of_a_key_is_refused(name):
    faults = faults_in(f"{SIMULATED}shared: {{replica: {name}, valkey: {{url: 'env:A', prefix: {name}}}}}\n")

    assert [fault.path for fault in faults if "must have 1 to 64 letters" in fault.problem] == [
        "shared.replica",
        "shared.valkey.prefix",
    ]


HOOK = "https://hooks.example/tandem"
GOOD = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_a_webhook_gets_all_events_by_default_and_no_private_address():
    (hook,), problems = run(check_webhooks, [JobWebhook(HOOK, (Secret("env:HOOK"),))], HOOK=GOOD)

    assert problems == []
    assert (hook.url, hook.events, hook.allow_private) == (HOOK, tuple(JobEvent), False)
    assert [secret.reveal() for secret in hook.secret] == [GOOD]
    assert GOOD not in repr(hook)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        *(
            (url, "is a private address")
            for url in (
                "http://127.0.0.1:9000/",
                "http://localhost/",
                "http://10.1.2.3/",
                "http://[::1]/",
                "http://169.254.169.254/",
            )
        ),
        ("ftp://x/", "must begin with https:// or http://"),
        ("https://a:b@x:443/", "must not contain credentials; the signature shows who sent an event"),
        ("https://", "must name a host, as in https://api.example.com/v1"),
    ],
)
def test_an_address_that_no_webhook_may_have_is_refused(url, problem):
    assert run(check_webhooks, [JobWebhook(url, (Secret("env:HOOK"),))], HOOK=GOOD)[1] == [problem]
    if "private" in problem:
        assert run(check_webhooks, [JobWebhook(url, (Secret("env:HOOK"),), allow_private=True)], HOOK=GOOD)[1] == []


@pytest.mark.parametrize(
    ("source", "secret", "problem"),
    [
        ("env:HOOK", "whsec_no base64!", "env:HOOK begins with whsec_, and the rest is not base64"),
        ("env:HOOK", "whsec_c2hvcnQ=", "env:HOOK is shorter than 16 bytes"),
        ("env:HOOK", "short", "env:HOOK is shorter than 16 bytes"),
        ("env:HOOK", "", "env:HOOK is not set in the environment, nor in .env next to the config"),
        (GOOD, "", "must name a variable"),
    ],
)
def test_a_secret_that_cannot_sign_is_a_fault_that_does_not_show_it(source, secret, problem):
    assert run(check_webhooks, [JobWebhook(HOOK, (Secret(source),))], HOOK=secret)[1] == [problem]


def test_each_of_several_secrets_must_be_able_to_sign():
    hook = JobWebhook(HOOK, (Secret("env:HOOK"), Secret("env:OLD_HOOK")))

    (found,), problems = run(check_webhooks, [hook], HOOK=GOOD, OLD_HOOK="short")

    assert problems == ["env:OLD_HOOK is shorter than 16 bytes"]
    assert [secret.variable for secret in found.secret] == ["HOOK", "OLD_HOOK"]


def test_the_same_address_twice_is_a_fault():
    hook = JobWebhook(HOOK, (Secret("env:HOOK"),))

    assert run(check_webhooks, [hook, hook], HOOK=GOOD)[1] == ["duplicate address"]


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        ("{url: 'https://x/', secret: 'env:HOOK', events: [response.started]}", "webhooks[0].events[0]"),
        ("{url: 'https://x/'}", "webhooks[0].secret"),
        ("{url: 'https://x/', secret: []}", "webhooks[0].secret"),
        ("{url: 'https://x/', secret: 5}", "webhooks[0].secret"),
        ("{url: 'https://x/', secret: ['env:HOME', 5]}", "webhooks[0].secret[1]"),
        ("{url: 'https://x/', secret: ['env:PATH', 'env:NOT_SET']}", "webhooks[0].secret[1]"),
    ],
)
def test_a_webhook_of_another_form_is_reported_with_its_path(entry, path):
    assert [fault.path for fault in faults_in(f"{SIMULATED}webhooks: [{entry}]\n")] == [path]


def test_headers_for_traces_are_read_as_opentelemetry_writes_them():
    value = "Authorization=Basic%20canary%3D, x-scope = team%2Ca ,,"

    assert run(read_trace_headers, "env:T", T=value) == ((("authorization", "Basic canary="), ("x-scope", "team,a")), [])


@pytest.mark.parametrize(
    ("source", "value", "problem"),
    [
        ("env:T", "canary", "env:T: entry 1 is not a header"),
        ("env:T", "a=1,b c=canary", "env:T: entry 2 is not a header"),
        ("env:T", "a=canary%0d%0ab: 1", "env:T: entry 1 is not a header"),
        ("env:T", "=a", "env:T: entry 1 is not a header"),
        ("env:T", "Host=canary", 'env:T: "host" is set by Tandem itself'),
        ("x-key=canary", "", "must name a variable, as env:NAME"),
        ("env:T", "", "env:T is not set in the environment, nor in .env next to the config"),
    ],
)
def test_what_is_not_a_header_is_a_fault_that_does_not_show_it(source, value, problem):
    assert run(read_trace_headers, source, T=value)[1] == [problem]
