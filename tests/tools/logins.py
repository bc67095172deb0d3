"""Made-up logins of plans, in the form that clients send them."""

import json
from base64 import urlsafe_b64encode

ACCOUNT = "acct-canary-7f3a5b1c"


def claude_login(person: str = "ada") -> dict[str, str]:
    """The headers of a Claude login."""
    return {"authorization": f"Bearer sk-ant-oat01-canary-{person}-0123456789abcdefAA"}


def chatgpt_token(person: str = "ada", **claims: object) -> str:
    """A token that nobody signed."""
    own = {"https://api.openai.com/auth": {"chatgpt_account_id": ACCOUNT, "chatgpt_plan_type": "pro"}, "sub": person}
    parts = ({"alg": "RS256", "typ": "JWT"}, claims or own)
    head, body = (urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return f"{head}.{body}.canary-signature-{person}"


def chatgpt_login(person: str = "ada") -> dict[str, str]:
    """The headers of a ChatGPT login."""
    return {"authorization": f"Bearer {chatgpt_token(person)}", "chatgpt-account-id": f"{ACCOUNT}-{person}"}
