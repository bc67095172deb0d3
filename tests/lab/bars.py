"""The road as it is served, judged on what its weights have not seen: whole repositories, projects and asks are left out.

Each part of the data is judged by weights that were fitted to the others, through `House.explain`: the earlier turns, their
calls and the assistant's last message are in the request, as a client would send them.
"""

import asyncio
import random
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import orjson

from router.config.load import default_text, load_config
from router.contract.exchange import Arrival
from router.contract.request import Json, JsonObject
from router.contract.words import DEFAULT_DIALECT, Operation, Tier
from router.wiring.build import build_house, known_names
from tests.lab.figures import auroc
from tests.lab.items import Reply, Row, load_items
from tests.lab.labelled import ASKS, MEANING, chat_body
from tests.lab.train import Report, divide, fit

_PARTS = 4
_RESAMPLES = 300
_POLICIES = (
    "override, rules, capability, window, side_request, effort, {learned: {weights: ours.weights}}, boundary, trajectory"
)
FORMS = Path(__file__).with_name("forms.jsonl")
"""Asks of ours that are never fitted."""
ASKED_AS = (
    "can you {}?", "could we {}?", "please {}", "I'd like you to {}", "hey, quick one: {}", "would it be possible to {}?",
    "ok um so basically {} if you can", "{} - thanks a lot!",
)  # fmt: skip
FIRST_LINES = (
    "Complete this code:", "Complete the following Python function:", "Write the missing body of this function", "Finish it:",
    "Could you fill in this function?", "Implement this function so that its docstring holds.", "complete", "The code below is unfinished. Finish it.",
)  # fmt: skip
Told = tuple[float, bool]
"""Score, and whether fast was chosen."""
Explain = Callable[[JsonObject], Told]


class Verdict(NamedTuple):
    group: str
    is_long: bool
    score: float
    is_fast: bool

    @property
    def is_right(self) -> bool:
        return self.is_fast is not self.is_long


class Grouped(Protocol):
    """A verdict on something that belongs to a repository, project or block of asks."""

    @property
    def group(self) -> str: ...


Judgement = TypeVar("Judgement", bound=Grouped)


class Figure(NamedTuple):
    name: str
    value: float
    low: float
    high: float
    count: int


@contextmanager
def explaining(content: bytes) -> Iterator[Explain]:
    """Decide with these weights."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "ours.weights").write_bytes(content)
        path = Path(folder) / "config.yaml"
        path.write_text(f"{default_text()}\npolicies: [{_POLICIES}]\n")
        house = build_house(load_config(path, known_names()), with_ledger=False).house
        try:
            with asyncio.Runner() as runner:

                def explain(body: JsonObject) -> Told:
                    arrival = Arrival("req_lab", DEFAULT_DIALECT, Operation.CREATE, {}, orjson.dumps(body))
                    told = runner.run(house.explain(arrival))
                    return float(str(told["score"])), told["tier"] == Tier.FAST

                yield explain
        finally:
            house.state.counter.close()


def reply_body(reply: Reply) -> JsonObject:
    """An answer to an offer, after the ask that led to it."""
    messages: list[Json] = [{"role": "user", "content": reply.before}, {"role": "assistant", "content": reply.said}]
    return {"model": "auto", "messages": [*messages, {"role": "user", "content": reply.text}]}


class Judged(NamedTuple):
    rows: dict[int, Told]
    replies: dict[int, Told]


def judge_unseen(rows: Sequence[Row], replies: Sequence[Reply], report: Report) -> Judged:
    """Everything that is to be judged, each by weights fitted without its group."""
    folds = divide([each.group for each in (*rows, *replies)], _PARTS)
    of_rows, of_replies = folds[: len(rows)], folds[len(rows) :]
    found = Judged({}, {})
    for part in range(_PARTS):
        fitted = fit(
            [row for row, own in zip(rows, of_rows, strict=True) if own != part],
            [reply for reply, own in zip(replies, of_replies, strict=True) if own != part],
            "",
            report,
        )
        with explaining(fitted.content) as explain:
            for index, row in enumerate(rows):
                if of_rows[index] == part and row.item.is_clear and (row.kind in (ASKS, MEANING) or row.is_project):
                    found.rows[index] = explain(chat_body(row.item))
            for index, reply in enumerate(replies):
                if of_replies[index] == part and reply.said and reply.is_long is not None:
                    found.replies[index] = explain(reply_body(reply))
        report(f"judged part {part + 1} of {_PARTS}")
    return found


class Wording(NamedTuple):
    """A first line or form, and which of its texts went to the tier that they should."""

    name: str
    is_right: list[bool]

    @property
    def share(self) -> float:
        return sum(self.is_right) / len(self.is_right) if self.is_right else 0.0


def judge_seen(explain: Explain, rows: Sequence[Row], functions: Sequence[str]) -> Iterator[Wording]:
    """By weights fitted to everything: projects that they know, and texts that nobody fitted."""
    yield Wording(
        "projects, seen: on deep", [not explain(chat_body(row.item))[1] for row in rows if row.is_project and row.item.is_clear]
    )
    asks = load_items([FORMS])
    plain = [explain(chat_body(item))[1] for item in asks]
    yield Wording("forms: plain, right", [is_fast is not item.is_long for item, is_fast in zip(asks, plain, strict=True)])
    for form in ASKED_AS:
        said = [explain(chat_body(replace(item, prompt=form.format(item.prompt))))[1] for item in asks]
        yield Wording(f"forms: {form}", [own == other for own, other in zip(plain, said, strict=True)])
    for line in FIRST_LINES:
        yield Wording(
            f"completion: {line}",
            [
                explain({"model": "auto", "messages": [{"role": "user", "content": f"{line}\n\n{code}"}]})[1]
                for code in functions
            ],
        )


def list_figures(rows: Sequence[Row], replies: Sequence[Reply], found: Judged) -> Iterator[Figure]:
    sets: dict[str, list[Verdict]] = defaultdict(list)
    for index, (score, is_fast) in found.rows.items():
        row = rows[index]
        name = "projects, unseen" if row.is_project else row.item.set_name
        sets[name].append(Verdict(row.group, row.item.is_long, score, is_fast))
    for name in sorted(sets):
        yield from _figures_of(name, sets[name])
    answers = [(replies[index], told) for index, told in found.replies.items()]
    for name, kept in (
        ("replies to offers", answers),
        ("replies: small offers taken up", [pair for pair in answers if pair[0].accepts and not pair[0].is_long]),
        ("replies: big offers taken up", [pair for pair in answers if pair[0].accepts and pair[0].is_long]),
        ("replies: not taken up", [pair for pair in answers if not pair[0].accepts]),
        ("replies: other languages", [pair for pair in answers if pair[0].lang != "en"]),
    ):
        verdicts = [Verdict(reply.group, bool(reply.is_long), told[0], told[1]) for reply, told in kept]
        yield estimate(f"{name}: right", verdicts, lambda some: _share([one.is_right for one in some]))


def _figures_of(name: str, verdicts: list[Verdict]) -> Iterator[Figure]:
    def waits(some: list[Verdict]) -> float | None:
        return _per_100(some, lambda one: not one.is_long and not one.is_fast)

    def late(some: list[Verdict]) -> float | None:
        return _per_100(some, lambda one: one.is_long and one.is_fast)

    yield estimate(f"{name}: AUROC", verdicts, lambda some: auroc([(one.score, one.is_long) for one in some]))
    yield estimate(f"{name}: quick on fast", verdicts, lambda some: _share([one.is_fast for one in some if not one.is_long]))
    yield estimate(f"{name}: long on deep", verdicts, lambda some: _share([not one.is_fast for one in some if one.is_long]))
    yield estimate(f"{name}: needless waits in 100", verdicts, waits)
    yield estimate(f"{name}: long begun on fast in 100", verdicts, late)


def _share(found: list[bool]) -> float | None:
    return sum(found) / len(found) if found else None


def _per_100(some: list[Verdict], counts: Callable[[Verdict], bool]) -> float | None:
    return 100 * sum(map(counts, some)) / len(some) if some else None


def estimate(name: str, judged: Sequence[Judgement], measure: Callable[[list[Judgement]], float | None]) -> Figure:
    """A figure with the range that holds 95 % of what resampled groups give."""
    groups: dict[str, list[Judgement]] = defaultdict(list)
    for one in judged:
        groups[one.group].append(one)
    drawn, chance = [], random.Random(0)
    for _ in range(_RESAMPLES):
        value = measure([one for group in chance.choices([*groups.values()], k=len(groups)) for one in group])
        if value is not None:
            drawn.append(value)
    drawn.sort()
    value = measure([*judged])
    if value is None:
        return Figure(name, float("nan"), float("nan"), float("nan"), len(judged))
    return Figure(name, value, drawn[int(0.025 * len(drawn))], drawn[int(0.975 * len(drawn))], len(judged))
