"""What a request may cost at a target, before it is sent, and how long its answer may be for that. Pure functions.

Every part is taken at its dearest: the upper end of the estimate of the prompt, at the highest price of input that may apply
(some hosts charge more for what goes into their cache, and more for long prompts), and every answer that is asked for at the
length that it is capped at.
"""

import math
from typing import NamedTuple

from router.contract.errors import NotPermitted
from router.contract.request import JsonObject, RequestView
from router.contract.signals import TokenCount
from router.contract.spending import UNITS_PER_USD, as_units_above
from router.contract.target import Price, Target
from router.contract.words import Feature
from router.dialects.cap import LEAST_THINKING_TOKENS, read_thinking_budget
from router.dialects.table import SPECS

_MILLION = 1_000_000.0
_TIMES_EXPECTED = 3
_FEWEST_TOKENS = 16
"""Some hosts take no smaller limit, and are sent this one."""
LEAST_ANSWER_TOKENS = 256
"""The shortest answer worth paying a prompt for."""
_UNLIMITED_TOKENS = 32_000
"""The cap of a request without a limit: hosts refuse a limit that is longer than their model writes, and few write less."""
_MORE_FOR_AN_IMAGE = 2_000
"""Of the tokens of an image; the estimate takes the middle."""


class RequestSize(NamedTuple):
    """The most that a request may take, as far as that is known before a target is chosen."""

    prompt_tokens: int | None
    """None: as much as the target's window holds. A file or a history that the target keeps was never counted."""
    answer_tokens: int | None
    """Its own limit for one answer; None without one."""
    answers: int = 1
    least_tokens: int = LEAST_ANSWER_TOKENS
    """The shortest answer that is of use."""


class Bound(NamedTuple):
    """What one attempt at a target may cost, by the tokens that each of its answers may have."""

    prompt_micros: float
    """In millionths of a dollar."""
    token_micros: float
    """One token of every answer."""
    most_tokens: int
    """The request's own limit or, without one, what its target may write."""
    least_tokens: int
    expected_tokens: float

    def units(self, tokens: float) -> int:
        """The most that answers of up to this length may cost, with the prompt."""
        return as_units_above((self.prompt_micros + max(tokens, _FEWEST_TOKENS) * self.token_micros) / _MILLION)

    @property
    def least_units(self) -> int:
        return self.units(self.least_tokens)

    @property
    def usual_units(self) -> int:
        """What an answer of the expected length may cost."""
        return self.units(min(self.most_tokens, max(self.least_tokens, self.expected_tokens)))

    def choose_units(self, free: int) -> int:
        """What to hold of this much: enough for an answer that is far longer than expected, or else half.

        So one request does not take what others may want meanwhile. It is never less than the shortest answer takes.
        """
        likely = self.units(max(self.least_tokens, _TIMES_EXPECTED * self.expected_tokens))
        return max(self.least_units, min(free, self.units(self.most_tokens), max(likely, free // 2)))

    def tokens(self, units: int) -> int:
        """How long an answer may be for this much. Not below the shortest: what is held covers that."""
        if units >= self.units(self.most_tokens):
            return self.most_tokens
        return max(self.least_tokens, min(self.most_tokens, math.floor(self.covered(units))))

    def covered(self, units: int) -> float:
        """The tokens of each answer that this much pays for, whatever limit there is."""
        # A unit is left for rounding: what is sent as a cap must be covered by what is held.
        micros = (units - 1) * _MILLION / UNITS_PER_USD - self.prompt_micros
        return micros / self.token_micros if self.token_micros else math.inf


def measure(view: RequestView, prompt: TokenCount) -> RequestSize:
    is_unseen = Feature.FILES in view.needs or (view.previous_response_id is not None and view.continued is None)
    tokens = None if is_unseen else max(prompt.high, prompt.tokens) + view.image_count * _MORE_FOR_AN_IMAGE
    limit, least = _read_limit(view), LEAST_ANSWER_TOKENS
    if read_thinking_budget(view.dialect, view.body):
        least += LEAST_THINKING_TOKENS
    return RequestSize(tokens, limit, _count_answers(view), least if limit is None else min(least, limit))


def _read_limit(view: RequestView) -> int | None:
    """The request's own limit. Hosts differ in whether they read `100.0`: what they are sent is a whole number."""
    spec = SPECS[view.dialect]
    limits = [view.body.get(name) for name in spec.limit_fields]
    return spec.read_limit(view.body) or next((int(limit) for limit in limits if isinstance(limit, float) and limit >= 1), None)


def _count_answers(view: RequestView) -> int:
    """How many answers are asked for: by number, and in the old endpoint by a list of prompts."""
    body: JsonObject = view.body
    asked = [_whole(body.get("n")), _whole(body.get("best_of"))]
    prompts = body.get("prompt")
    several = len(prompts) if isinstance(prompts, list) and prompts and not isinstance(prompts[0], int) else 1
    return max(1, *asked) * several


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def bound_of(
    size: RequestSize, target: Target, expected_tokens: float, added_tokens: int = 0, taken_tokens: int | None = None
) -> Bound:
    """What one attempt at a target may cost.

    `added_tokens` is what the config adds to a prompt, `taken_tokens` the longest limit of a target that refused a longer one.
    """
    window = target.window_tokens
    prompt = window if size.prompt_tokens is None else size.prompt_tokens + added_tokens
    input_price, output_price = _dearest(_price_of(target), prompt)
    if size.answer_tokens is not None:
        most = min(size.answer_tokens, window)
    else:
        room = window - prompt if prompt < window else window
        most = min(int(max(_UNLIMITED_TOKENS, _TIMES_EXPECTED * expected_tokens)), room, taken_tokens or room)
    least = min(size.least_tokens, most)
    return Bound(prompt * input_price, size.answers * output_price, most, least, expected_tokens)


def bound_of_question(target: Target, words: str, most_tokens: int) -> int:
    """The most that a question to a target may cost. No token is shorter than a byte."""
    prompt = len(words.encode("utf-8", "replace"))
    input_price, output_price = _dearest(_price_of(target), prompt)
    return as_units_above((prompt * input_price + most_tokens * output_price) / _MILLION)


def _price_of(target: Target) -> Price:
    if target.price is None:
        raise NotPermitted(f'your key has a budget, and target "{target.name}" has no price')
    return target.price


def _dearest(price: Price, prompt_tokens: float) -> tuple[float, float]:
    """The highest prices of input and output that a prompt of up to this length may have."""
    steps = [price.at(step.above_tokens + 1) for step in price.steps if step.above_tokens < prompt_tokens]
    reached = [price, *steps]
    return max(max(each.input, each.write, each.read) for each in reached), max(each.output for each in reached)
