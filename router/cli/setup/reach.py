"""Asks a running router for its models with a person's key, before `tandem connect` changes a file."""

import json
import os
import ssl
import urllib.request
from http.client import HTTPException
from typing import NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from router.cli import Ended
from router.cli.common import say
from router.contract.secret import ENVIRONMENT, Secret

_ASK_SECONDS = 5.0
_HERE = ("127.0.0.1", "localhost", "::1")


class ClientKey(NamedTuple):
    """The value is empty if not set."""

    variable: str
    value: str


def read_key(variable: str | None) -> ClientKey | None:
    """Raises `Ended` for an invalid name, unshown: it may be the key itself."""
    if variable is None:
        return None
    secret = Secret(f"{ENVIRONMENT}{variable}")
    if secret.is_misplaced:
        hint = "export TANDEM_KEY=tdm_…, then --key-env TANDEM_KEY"
        raise Ended(2, f"--key-env takes the name of an environment variable, not the key itself\n  hint: {hint}")
    return ClientKey(variable, os.environ.get(variable, "").strip())


def ask_router(address: str, key: ClientKey | None) -> dict[str, int] | None:
    """Model names and windows; None without an answer. Raises `Ended` if the router refuses the key."""
    is_here = urlsplit(address).hostname in _HERE
    opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if is_here else []))
    request = urllib.request.Request(f"{address}/v1/models")  # noqa: S310  the scheme was checked
    if key is not None and key.value:
        warn_if_readable(address, "key")
        # Redirects must not receive the key.
        request.add_unredirected_header("Authorization", f"Bearer {key.value}")
    elif key is not None:
        say(f"{key.variable} is not set here, so the key was not checked")
    try:
        with opener.open(request, timeout=_ASK_SECONDS) as answer:
            told = {str(model["id"]): int(model["context_window"]) for model in json.load(answer)["data"]}
        return told if "auto" in told else None
    except HTTPError as error:
        error.close()
        _explain_status(error.code, address, key)
        why = f"{address} answers with status {error.code}"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, HTTPException) as error:
        why = _explain(error, address)
    say(f"{why}: windows are taken from the config here")
    return None


def warn_if_readable(address: str, what: str) -> None:
    if address.startswith("http:") and urlsplit(address).hostname not in _HERE:
        say(f"{address} is not encrypted: anybody on the way can read the {what}. Use https")


def _explain_status(status: int, address: str, key: ClientKey | None) -> None:
    """End the command if a client with these settings would be refused."""
    if status == 401 and key is None:
        hint = "put your key into an environment variable, then --key-env NAME"
        raise Ended(1, f"the router at {address} asks for a key (401)\n  hint: {hint}")
    if status == 401 and key is not None and key.value:
        hint = f"copy the whole key, tdm_ and all, into {key.variable}; it may also have expired or been revoked"
        raise Ended(1, f"the router at {address} does not accept the key in {key.variable} (401)\n  hint: {hint}")
    if status == 429:
        raise Ended(1, f"the router at {address} got too many wrong keys from here (429)\n  hint: try again in a minute")


def _explain(error: Exception, address: str) -> str:
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        hint = "for a private authority, export SSL_CERT_FILE=ca.pem and NODE_EXTRA_CA_CERTS=ca.pem, for your client too"
        raise Ended(1, f"the certificate of {address} is not trusted: {reason.verify_message}\n  hint: {hint}")
    return f"no router answers at {address}"
