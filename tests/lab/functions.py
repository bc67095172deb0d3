"""Small functions to complete, built from what they pick out of a list and what they do with it. None is ever fitted."""

from collections.abc import Callable, Sequence
from itertools import islice, product

NUMBERS = [7, -4, 0, 12, 25, -9, 100, 3]
_PICKED: dict[str, Callable[[int], bool]] = {
    "odd": lambda number: number % 2 == 1,
    "even": lambda number: number % 2 == 0,
    "negative": lambda number: number < 0,
    "positive": lambda number: number > 0,
    "square": lambda number: number >= 0 and round(number**0.5) ** 2 == number,
    "two-digit": lambda number: 10 <= abs(number) < 100,
    "single-digit": lambda number: abs(number) < 10,
    "prime": lambda number: number > 1 and all(number % other for other in range(2, number)),
    "non-zero": bool,
    "round": lambda number: number % 10 == 0,
    "palindromic": lambda number: str(number) == str(number)[::-1],
    "large": lambda number: number > 20,
    "small": lambda number: abs(number) <= 5,
}
_DONE: dict[str, tuple[str, Callable[[Sequence[int]], object]]] = {
    "keep": ("Return the {} numbers in the order in which they were given.", list),
    "count": ("Return how many of the numbers are {}.", len),
    "add_up": ("Return the sum of all {} numbers, or 0 if there are none.", sum),
    "largest": ("Find the largest of the {} numbers. If there is no such number, return None.", lambda some: max(some, default=None)),
    "smallest": ("Find the smallest of the {} numbers. If there is no such number, return None.", lambda some: min(some, default=None)),
    "sort": ("Sort the {} numbers from the smallest to the largest and leave out all others.", sorted),
    "turn_round": ("Return the {} numbers from the last to the first.", lambda some: [*reversed(some)]),
    "double": ("Double each of the {} numbers; the others are dropped from the result.", lambda some: [2 * one for one in some]),
    "join": ("Write the {} numbers as text, with a comma and a space between them.", lambda some: ", ".join(map(str, some))),
    "has_any": ("Tell whether at least one of the given numbers is {}.", bool),
    "first": ("Return the first of the {} numbers, or None where the list holds none.", lambda some: next(iter(some), None)),
    "spread": ("Return the distance between the largest and the smallest of the {} numbers.", lambda some: max(some) - min(some) if some else 0),
    "average": ("Compute the average of all {} numbers, rounded to two places; 0.0 if there are none.", lambda some: round(sum(some) / len(some), 2) if some else 0.0),
}  # fmt: skip


def make_functions(count: int = 164) -> list[str]:
    """Heads of functions, each with a docstring and a true example, half of them with types."""
    made = []
    for index, ((kind, is_picked), (name, (sentence, act))) in enumerate(
        islice(product(_PICKED.items(), _DONE.items()), count)
    ):
        called = f"{name}_{kind.replace('-', '_')}"
        signature = f"{called}(numbers: list[int])" if index % 2 else f"{called}(numbers)"
        result = act([number for number in NUMBERS if is_picked(number)])
        made.append(
            f'def {signature}:\n    """{sentence.format(kind)}\n\n    >>> {called}({NUMBERS})\n    {result!r}\n    """\n'
        )
    return made
