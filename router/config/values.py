"""Values of settings that need more than a type: what fits a header, and what is an address."""

from datetime import date, datetime
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BeforeValidator


def _as_text(value: object) -> object:
    """A number or a date, as YAML reads `2024-10-21`, in the letters of the file."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


ExtraValue = Annotated[str, BeforeValidator(_as_text)]


def fits_header(value: str) -> bool:
    """Whether a header can have this value."""
    return value.isascii() and value.isprintable()


def find_address_fault(url: str) -> str:
    """What is wrong with an address; empty for a good one."""
    if not fits_header(url) or " " in url:
        return "must not contain line breaks, spaces, or non-ASCII characters"
    try:
        parts = urlsplit(url)
    except ValueError:  # a bracket that is not closed, or what is in it is no IPv6 address
        return "is not a valid address; IPv6 is written http://[::1]:8000/v1"
    if not parts.hostname:
        return "must name a host, as in https://api.example.com/v1"
    port = parts.netloc.rpartition("]")[2].rpartition(":")
    if port[1] and not (port[2].isdigit() and 1 <= int(port[2][:6]) <= 65_535):
        return "must have a port between 1 and 65535, or none"
    return ""
