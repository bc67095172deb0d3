"""Events are OpenAI's, and the SDK's own check takes their signatures."""

import json
import time

import openai
import pytest

from router.contract.job import WebhookEvent
from router.jobs.webhooks import sign, write_event

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
EVENT = WebhookEvent("evt_1", "resp_ab12", "https://example.com/hook", "response.completed", 1_700_000_000.7)


def test_a_signature_is_that_of_the_example_in_the_standard():
    headers = sign("msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}', SECRET, 1_614_265_330.9)

    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@pytest.mark.parametrize("secret", [SECRET, "a plain secret of sufficient length"])
def test_the_sdk_takes_an_event_with_its_secret_and_with_no_other(secret):
    body = write_event(EVENT)
    headers = sign(EVENT.id, body, secret, time.time())
    client = openai.OpenAI(api_key="-", webhook_secret=secret)

    event = client.webhooks.unwrap(body, headers)

    assert (event.id, event.type, event.created_at, event.data.id) == (
        "evt_1",
        "response.completed",
        1_700_000_000,
        "resp_ab12",
    )
    assert event.object == "event"
    with pytest.raises(openai.InvalidWebhookSignatureError):
        client.webhooks.unwrap(body, headers, secret="another secret, as long as that")
    with pytest.raises(openai.InvalidWebhookSignatureError):
        client.webhooks.unwrap(body.replace(b"ab12", b"ab13"), headers)


def test_an_event_names_the_response_and_nothing_that_is_in_it():
    assert json.loads(write_event(EVENT)) == {
        "id": "evt_1",
        "object": "event",
        "created_at": 1_700_000_000,
        "type": "response.completed",
        "data": {"id": "resp_ab12"},
    }
