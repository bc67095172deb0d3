"""Where the router is, and whether it is running. Nothing heavy is imported, since the status line runs all the time."""

import socket
from urllib.parse import urlsplit


def url_of(host: str, port: int) -> str:
    """The address of a router that listens there."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def is_listening(url: str, within_seconds: float = 2.0) -> bool:
    """Whether something accepts connections at an address."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        with socket.create_connection((parts.hostname or "", port), within_seconds):
            return True
    except (OSError, ValueError):
        return False


def is_tandem(url: str, within_seconds: float = 2.0) -> bool:
    """Whether it is a Tandem router that answers at an address."""
    import urllib.error
    import urllib.request  # it takes longer than all the rest

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url}/", timeout=within_seconds) as answer:
            return answer.headers.get("x-tandem-request-id") is not None
    except urllib.error.HTTPError as error:
        return error.headers.get("x-tandem-request-id") is not None
    except (OSError, ValueError):
        return False
