"""Config values that may be secret: keys, headers and query parameters of targets.

A value may name a variable (`env:NAME`). Unset variables and other notations are faults.
"""

import os
import re
from collections.abc import Mapping

from msgspec import Struct

from router.config.cures import find_variable
from router.config.faults import Fault, KnownAdapter
from router.config.settings import fits_header
from router.contract.relay import ExtraField
from router.contract.secret import Secret

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_REFERENCE = re.compile(r"([A-Za-z]+ )?(env:\S*)")
"""A reference, alone or after a scheme: `Bearer env:NAME`."""
_SET_BY_TANDEM = frozenset({"host", "content-length", "content-type", "accept", "accept-encoding", "user-agent"})
_OF_A_CONNECTION = frozenset({"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect"})
_OF_A_KEY = ("authorization", "x-api-key")


class SecretChecker(Struct, frozen=True):
    """Checks values that may be secret. Faults never show a value."""

    faults: list[Fault]
    keys: Mapping[str, str]
    """Values from `.env` for unset variables."""
    needs_keys: bool = True

    def check(self, path: str, source: str) -> Secret:
        """The secret in a setting or its variable."""
        secret = Secret(source)
        if secret.is_reference:
            secret = Secret(source, self.keys.get(secret.variable, ""))
        if self._finds_misplaced(path, secret):
            return secret
        if secret.is_reference and not secret.reveal():
            if not self.needs_keys:
                return secret
            is_empty = os.environ.get(secret.variable) is not None
            where = "is set, but empty, and is not" if is_empty else "is not set in the environment, nor"
            problem = f"{secret} {where} in .env next to the config"
            if not any(fault.problem == problem for fault in self.faults):
                hint = f"export {secret.variable}=… before you start the router, or write {secret.variable}=… into .env"
                self.faults.append(Fault(path, problem, hint))
        elif not fits_header(secret.reveal()):
            problem = "contains a line break, or a character that is not ASCII, and cannot be sent"
            self.faults.append(Fault(path, f"{secret} {problem}", "copy the key again"))
        return secret

    def check_headers(
        self, path: str, headers: Mapping[str, str], adapter: KnownAdapter, key: Secret | None
    ) -> list[ExtraField]:
        """A target's extra headers, by lower-case name."""
        found: dict[str, ExtraField] = {}
        for written, value in headers.items():
            name, place = written.lower(), f"{path}.{written}"
            if problem := _find_name_fault(name, adapter, key):
                self.faults.append(Fault(place, *problem))
            elif name in found:
                self.faults.append(Fault(place, f'duplicate header "{name}"', "header names are case-insensitive"))
            else:
                found[name] = self._check_field(place, name, value)
        return list(found.values())

    def check_query(self, path: str, query: Mapping[str, str]) -> list[ExtraField]:
        return [self._check_field(f"{path}.{name}", name, value) for name, value in query.items()]

    def _check_field(self, path: str, name: str, value: str) -> ExtraField:
        if found := _REFERENCE.fullmatch(value.strip()):
            return ExtraField(name, found[1] or "", self.check(path, found[2]))
        if variable := find_variable(value):
            self.faults.append(Fault(path, "refers to a variable in a form that is not supported", f"write env:{variable}"))
        elif not value or value != value.strip() or not fits_header(value):
            problem = "must not be empty, nor contain line breaks, spaces around it, or non-ASCII characters"
            self.faults.append(Fault(path, problem))
        return ExtraField(name, value)

    def _finds_misplaced(self, path: str, key: Secret) -> bool:
        """Find a key after `env:`, or a variable in another program's notation, which would be sent as the key."""
        if key.is_callers or (key.is_reference and (not key.is_misplaced or key.reveal())):
            return False
        variable, name = find_variable(key.source), path.rpartition(".")[2]
        if variable and not Secret(f"env:{variable}").is_misplaced:
            problem = "refers to a variable in a form that is not supported"
            self.faults.append(Fault(path, problem, f"write {name}: env:{variable}"))
        elif key.is_reference:
            hint = "put the key into a variable, or into .env next to the config, and name that: env:OPENAI_API_KEY"
            self.faults.append(Fault(path, f"{key}: env: takes the name of a variable, not the key", hint))
        else:
            return False
        return True


def _find_name_fault(name: str, adapter: KnownAdapter, key: Secret | None) -> tuple[str, str] | None:
    """The fault of a header's name and its fix, or None."""
    if not _TOKEN.fullmatch(name):
        return "is not a valid header name", "letters, digits and hyphens, as in x-portkey-provider"
    if name in _OF_A_CONNECTION or name.startswith(("proxy-", "sec-")):
        return "is a connection header and cannot be set for a target", ""
    if name in _SET_BY_TANDEM or name in adapter.own_headers:
        return "is set by Tandem itself", "remove the line"
    if name in _OF_A_KEY and key is not None and (key.is_callers or name == adapter.key_header):
        return "already carries api_key", "keep one: api_key, or this header"
    return None
