"""The headers for a collector of traces, as the variable that `traces.headers` names has them: key=value,key=value."""

import re
from urllib.parse import unquote

from router.config.faults import Fault
from router.config.secrets import SecretChecker
from router.config.values import fits_header
from router.contract.relay import Headers

_PATH = "traces.headers"
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
_OURS = frozenset({"host", "content-length", "content-type", "connection", "transfer-encoding"})


def read_trace_headers(source: str | None, secrets: SecretChecker) -> Headers:
    """The headers, with names in lower case. Adds to the faults; none of them shows a value."""
    if source is None:
        return ()
    if not source.startswith("env:"):
        hint = "put the headers into a variable, or into .env next to the config, and name that: env:OTEL_EXPORTER_OTLP_HEADERS"
        secrets.faults.append(Fault(_PATH, "must name a variable, as env:NAME", hint))
        return ()
    secret, before = secrets.check(_PATH, source), len(secrets.faults)
    if before and secrets.faults[-1].path == _PATH:
        return ()
    found: list[tuple[str, str]] = []
    for number, part in enumerate(secret.reveal().split(","), 1):
        name, is_pair, value = part.partition("=")
        name, value = unquote(name.strip()).lower(), unquote(value.strip())
        if not part.strip():
            continue
        if not is_pair or not _NAME.fullmatch(name) or not fits_header(value):
            hint = "write key=value,key=value; a comma or a space in a value is written %2C or %20"
            secrets.faults.append(Fault(_PATH, f"{secret}: entry {number} is not a header", hint))
        elif name in _OURS:
            secrets.faults.append(Fault(_PATH, f'{secret}: "{name}" is set by Tandem itself', "leave it out"))
        else:
            found.append((name, value))
    return tuple(found)
