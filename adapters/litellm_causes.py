"""Why litellm failed before a provider answered, with a fix.

litellm reports most of these as a failed connection, or as a status 500 that was never sent.
"""

import socket
import ssl
from collections.abc import Iterator

from router.contract.errors import UpstreamAuth, UpstreamError, UpstreamMalformed, UpstreamUnreachable

_PACKAGES = {"google": "google-auth", "vertexai": "google-cloud-aiplatform"}
"""Packages named differently from the module that litellm imports late."""
_CREDENTIALS = frozenset({"NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError", "ProfileNotFound"})

_WRAPPERS = ("litellm", "openai")
"""Libraries whose exceptions say less than their causes."""


def chain_of(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def find_cause(target: str, error: BaseException) -> UpstreamError | None:
    """The failure in our words; None if unexplained."""
    import httpx  # comes with litellm

    chain = list(chain_of(error))
    for cause in chain:
        if type(cause).__name__ in _CREDENTIALS:
            hint = "Set api_key, or name the variables that hold them in options.environment"
            return UpstreamAuth(target, f'target "{target}" found no cloud credentials. {hint}')
    for cause in reversed(chain):
        words = _words_of(cause)
        if words:
            return UpstreamUnreachable(target, f'target "{target}" could not be reached: {words}')
    if any(isinstance(cause, httpx.RequestError) for cause in chain):
        return UpstreamUnreachable(target, f'target "{target}" could not be reached: connection failed')
    return None


def failed_inside(target: str, error: BaseException) -> UpstreamError:
    """An unexplained failure by its type: its message may hold a person's words."""
    foreign = (cause for cause in chain_of(error) if type(cause).__module__.partition(".")[0] not in _WRAPPERS)
    cause = next(foreign, error)
    return UpstreamMalformed(target, f'target "{target}" failed inside litellm: {type(cause).__name__}')


def _words_of(cause: BaseException) -> str:
    match cause:
        case ModuleNotFoundError(name=str(name)):
            package = _PACKAGES.get(name.partition(".")[0], name.partition(".")[0])
            return f"litellm needs the Python module {name}. Install the package {package} where the router is installed"
        case ssl.SSLCertVerificationError():
            reason = getattr(cause, "verify_message", None) or "certificate not trusted"
            return f"TLS failed ({reason}). Set SSL_CERT_FILE to a file with its certificate authority"
        case ssl.SSLError():
            return f"TLS failed ({getattr(cause, 'reason', None) or 'handshake'})"
        case socket.gaierror():
            return "host name does not resolve"
        case ConnectionRefusedError():
            return "connection refused"
        case OSError():
            return "connection failed"
    return ""
