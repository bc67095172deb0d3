"""The address that word of troubles is sent to. Whoever knows it can write there, so it is a secret."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from router.config.faults import Fault
from router.config.secrets import SecretChecker
from router.contract.secret import ENVIRONMENT, Secret

_PATH = "alerts.webhook"


def check_webhook(source: str | None, keys: Mapping[str, str], faults: list[Fault]) -> Secret | None:
    """The address that the setting names; None if there is none. No fault shows it."""
    if source is None:
        return None
    if not source.startswith(ENVIRONMENT):
        hint = f"put the address into a variable or into .env, and write {_PATH}: env:ALERTS_WEBHOOK"
        faults.append(Fault(_PATH, "must be env:NAME, since whoever has the address can write there", hint))
        return None
    before = len(faults)
    address = SecretChecker(faults, keys).check(_PATH, source)
    if len(faults) == before and not _is_address(address.reveal()):
        faults.append(Fault(_PATH, f"{address} does not hold an address", "it begins with https:// or http://"))
    return address


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    is_plain = text.isascii() and text.isprintable() and " " not in text
    return is_plain and parts.scheme in ("http", "https") and bool(parts.hostname)
