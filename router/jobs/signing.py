"""Events as receivers get them: OpenAI's shape, signed as Standard Webhooks says, so that `client.webhooks.unwrap` takes them.

Why not with the package `standardwebhooks`: `docs/decisions/0067-webhooks.md`.
"""

import base64
import hashlib
import hmac

import orjson

from router.contract.job import WebhookEvent

_ENCODED = "whsec_"


def write_event(event: WebhookEvent) -> bytes:
    """The body. It names the response alone: what is in it is fetched with a key."""
    return orjson.dumps(
        {
            "id": event.id,
            "object": "event",
            "created_at": int(event.at),
            "type": event.event,
            "data": {"id": event.job_id},
        }
    )


def sign(event_id: str, body: bytes, secret: str, now: float) -> dict[str, str]:
    """The headers that prove who sent a body, and when. Receivers refuse old ones, so each try is signed with its own time."""
    timestamp = str(int(now))
    key = base64.b64decode(secret.removeprefix(_ENCODED)) if secret.startswith(_ENCODED) else secret.encode()
    digest = hmac.new(key, b"%b.%b.%b" % (event_id.encode(), timestamp.encode(), body), hashlib.sha256).digest()
    return {
        "webhook-id": event_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
