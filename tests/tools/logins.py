"""Made-up logins of plans, in the form that clients send them."""

import json
import time
from base64 import urlsafe_b64encode
from pathlib import Path

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


def write_logins(home: Path) -> dict[Path, bytes]:
    """The files of Claude Code and Codex that are logged in with a plan, by path."""
    later = int(time.time()) + 30 * 86_400
    scopes = ["user:inference", "user:profile"]
    claude = {"accessToken": claude_login()["authorization"].removeprefix("Bearer "), "refreshToken": "sk-ant-ort01-canary"}
    auth = {"chatgpt_account_id": ACCOUNT, "chatgpt_plan_type": "pro", "chatgpt_user_id": "user-canary"}
    token = chatgpt_token(exp=later, email="ada@example.com", **{"https://api.openai.com/auth": auth})
    tokens = {"id_token": token, "access_token": token, "refresh_token": "rt-canary", "account_id": ACCOUNT}
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    files = {
        ".claude/.credentials.json": {
            "claudeAiOauth": {**claude, "expiresAt": later * 1000, "scopes": scopes, "subscriptionType": "max"}
        },
        ".codex/auth.json": {"auth_mode": "chatgpt", "OPENAI_API_KEY": None, "tokens": tokens, "last_refresh": now},
    }
    for name, content in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(json.dumps(content))
    return {home / name: (home / name).read_bytes() for name in files}
