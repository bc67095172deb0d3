"""The addresses that are told of background jobs that end."""

import pytest

from router.config.job_settings import WebhookSettings
from router.config.webhooks import check_webhooks
from router.contract.webhooks import JobEvent

URL = "https://hooks.example/tandem"
GOOD = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def check(*entries, keys=None):
    faults = []
    settings = [WebhookSettings.model_validate({"url": URL, "secret": "env:HOOK", **entry}) for entry in entries]
    return check_webhooks(settings, {"HOOK": GOOD} if keys is None else keys, faults), faults


def faults_of(*entries, keys=None):
    return [f"{fault.path}: {fault.problem}" for fault in check(*entries, keys=keys)[1]]


def test_a_webhook_gets_all_events_by_default_and_no_private_address():
    (hook,), faults = check({})

    assert faults == []
    assert (hook.url, hook.events, hook.allow_private) == (URL, frozenset(JobEvent), False)
    assert hook.secret.reveal() == GOOD
    assert GOOD not in repr(hook)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9000/", "http://localhost/", "http://10.1.2.3/", "http://[::1]/", "http://169.254.169.254/latest"]
)
def test_a_private_address_is_refused_unless_it_is_allowed(url):
    assert faults_of({"url": url}) == ["webhooks[0].url: is a private address"]
    assert faults_of({"url": url, "allow_private": True}) == []


@pytest.mark.parametrize(
    ("secret", "problem"),
    [
        ("whsec_no base64!", "env:HOOK begins with whsec_, and the rest is not base64"),
        ("whsec_c2hvcnQ=", "env:HOOK is shorter than 16 bytes"),
        ("short", "env:HOOK is shorter than 16 bytes"),
        ("", "env:HOOK is not set in the environment, nor in .env next to the config"),
    ],
)
def test_a_secret_that_cannot_sign_is_a_fault_that_does_not_show_it(secret, problem):
    assert faults_of({}, keys={"HOOK": secret}) == [f"webhooks[0].secret: {problem}"]


def test_a_secret_in_the_config_itself_is_a_fault():
    assert faults_of({"secret": GOOD}) == ["webhooks[0].secret: must name a variable"]


def test_the_same_address_twice_is_a_fault():
    assert faults_of({}, {"events": ["response.failed"]}) == ["webhooks[1].url: duplicate address"]
