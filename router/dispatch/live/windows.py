"""Whether what a target says of its window, when it refuses a request for its length, is to be believed."""

from router.contract.errors import TandemError, UpstreamRefused
from router.contract.facts import Decided
from router.dialects.engine_words import read_window
from router.dialects.table import SPECS

_MOST_TOKENS_EACH = 2
_TEMPLATE_TOKENS = 64
"""What a target's template adds to a prompt, at most."""


def told_window(error: TandemError, decided: Decided | None) -> int | None:
    """The window that a refusal names, if the refused request can have been too long for it.

    Prompts are estimated, and counted otherwise by every model: a target may find twice as many tokens in one. A number that
    even then is larger than prompt and answer together is not what the request was refused for. Nor is one that the refusal
    quotes from the request: what one caller writes must not shrink the window for all.
    """
    if decided is None or not isinstance(error, UpstreamRefused):
        return None
    window = read_window(error.body, decided.view.body)
    if window is None:
        return None
    answer = SPECS[decided.view.dialect].read_limit(decided.view.body) or 0
    return window if window < decided.decision.prompt_tokens * _MOST_TOKENS_EACH + _TEMPLATE_TOKENS + answer else None
