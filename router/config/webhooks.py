"""The addresses that are told of background jobs that end. Each has a secret of its own, which no fault shows."""

import base64
import binascii
import ipaddress
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from router.config.faults import Fault
from router.config.job_settings import WebhookSettings
from router.config.secrets import SecretChecker
from router.contract.secret import Secret
from router.contract.webhooks import JobWebhook

_SECRET_PREFIX = "whsec_"  # noqa: S105  how secrets of Standard Webhooks begin
_MIN_SECRET_BYTES = 16
_HOW_TO_MAKE_ONE = 'make one: echo "whsec_$(openssl rand -base64 32)"'
_LOCAL_NAMES = ("localhost", "localhost.localdomain")


def check_webhooks(settings: Sequence[WebhookSettings], keys: Mapping[str, str], faults: list[Fault]) -> tuple[JobWebhook, ...]:
    """The webhooks of a config, with their secrets read."""
    found: dict[str, JobWebhook] = {}
    for index, hook in enumerate(settings):
        path = f"webhooks[{index}]"
        if hook.url in found:
            faults.append(Fault(f"{path}.url", "duplicate address", "list all its events in one entry"))
        if not hook.allow_private and _is_private(urlsplit(hook.url).hostname or ""):
            hint = "set allow_private: true if the receiver is meant to be there"
            faults.append(Fault(f"{path}.url", "is a private address", hint))
        secret = _check_secret(f"{path}.secret", hook.secret, keys, faults)
        found[hook.url] = JobWebhook(hook.url, secret, frozenset(hook.events), hook.allow_private)
    return tuple(found.values())


def _is_private(host: str) -> bool:
    """Whether a host is private by its name alone. What other names mean is checked when something is sent."""
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return host.lower().rstrip(".") in _LOCAL_NAMES


def _check_secret(path: str, source: str, keys: Mapping[str, str], faults: list[Fault]) -> Secret:
    secret = Secret(source)
    if not secret.is_reference:
        faults.append(Fault(path, "must name a variable", "write env:NAME, and put the secret into the variable NAME"))
        return secret
    before = len(faults)
    secret = SecretChecker(faults, keys).check(path, source)
    value = secret.reveal()
    if len(faults) > before or not value:
        return secret
    is_encoded = value.startswith(_SECRET_PREFIX)
    try:
        own = base64.b64decode(value.removeprefix(_SECRET_PREFIX), validate=True) if is_encoded else value.encode()
    except binascii.Error:
        faults.append(Fault(path, f"{secret} begins with whsec_, and the rest is not base64", _HOW_TO_MAKE_ONE))
        return secret
    if len(own) < _MIN_SECRET_BYTES:
        faults.append(Fault(path, f"{secret} is shorter than {_MIN_SECRET_BYTES} bytes", _HOW_TO_MAKE_ONE))
    return secret
