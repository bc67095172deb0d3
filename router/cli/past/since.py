"""`--since`: 30m, 2h, 7d, or a day."""

import argparse
import re
import time
from datetime import datetime

_AGO = re.compile(r"(\d{1,6})\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def add_since_argument(parser: argparse.ArgumentParser) -> None:
    """`--since`."""
    parser.add_argument(
        "--since", type=read_since, default=0.0, metavar="WHEN", help="30m, 2h, 7d, or a day as in 2026-11-01 (default: all)"
    )


def read_since(text: str) -> float:
    """The moment that is meant, in seconds since 1970. A day begins at midnight here. For `argparse`."""
    ago = _AGO.fullmatch(text.strip().lower())
    if ago is not None:
        return time.time() - int(ago[1]) * _SECONDS[ago[2]]
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a time ago (30m, 2h, 7d) nor a day (2026-11-01)") from None
