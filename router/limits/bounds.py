"""The most that a request may cost at a target, before it is sent. Pure functions.

Every part is taken at its dearest: the upper end of the estimate of the prompt, at the highest price of input that may apply
(some hosts charge more for what goes into their cache, and more for long prompts), and for the answer its own limit. A request
without a limit may be answered at any length: three times what is usual for the target is held for it. An answer that is longer
than that costs more than was held. It is counted in full, so the next request finds that much less.
"""

from typing import NamedTuple

from router.contract.errors import NotPermitted
from router.contract.facts import Decided
from router.contract.request import JsonObject, RequestView
from router.contract.spending import as_units_above
from router.contract.target import Price, Target
from router.contract.words import Feature
from router.dialects.table import SPECS

_MILLION = 1_000_000.0
_TIMES_USUAL = 3
_LEAST_ANSWER_TOKENS = 16
"""Some hosts take no smaller limit, and are sent this one."""
_MORE_FOR_AN_IMAGE = 2_000
"""Of the tokens of an image; the estimate takes the middle."""


class RequestSize(NamedTuple):
    """The most that a request may take, as far as that is known before a target is chosen."""

    prompt_tokens: int | None
    """None: as much as the target's window holds. A file or a history that the target keeps was never counted."""
    answer_tokens: int | None
    """Its own limit for one answer; None without one."""
    answers: int = 1


def measure(decided: Decided) -> RequestSize:
    view, prompt = decided.view, decided.decision.signals.prompt
    is_unseen = Feature.FILES in view.needs or (view.previous_response_id is not None and view.continued is None)
    tokens = None if is_unseen else max(prompt.high, decided.decision.prompt_tokens) + view.image_count * _MORE_FOR_AN_IMAGE
    return RequestSize(tokens, SPECS[view.dialect].read_limit(view.body), _count_answers(view))


def _count_answers(view: RequestView) -> int:
    """How many answers are asked for: by number, and in the old endpoint by a list of prompts."""
    body: JsonObject = view.body
    asked = [_whole(body.get("n")), _whole(body.get("best_of"))]
    prompts = body.get("prompt")
    several = len(prompts) if isinstance(prompts, list) and prompts and not isinstance(prompts[0], int) else 1
    return max(1, *asked) * several


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def bound_of(size: RequestSize, target: Target, usual_tokens: float, added_tokens: int = 0) -> int:
    """The most that one attempt at a target may cost, in units of money. `added_tokens` is what the config adds to a prompt."""
    price, window = _price_of(target), target.window_tokens
    prompt = window if size.prompt_tokens is None else size.prompt_tokens + added_tokens
    limit = size.answer_tokens
    answer = _TIMES_USUAL * usual_tokens if limit is None else max(limit, _LEAST_ANSWER_TOKENS)
    input_price, output_price = _dearest(price, prompt)
    return as_units_above((prompt * input_price + min(answer, window) * size.answers * output_price) / _MILLION)


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
