"""Past turns for `replay`."""

import os
import random
from datetime import timedelta

from tests.tools.histories import BEGAN, LONG, QUICK, Told, codex_log

TURNS = [QUICK, LONG, Told("it is still wrong", ("Bash",))]


def write_history(folder, sessions: int = 100, seed: int = 3) -> None:
    """A person who asks for long things in words that sound quick: the shipped values send too much to fast."""
    chance = random.Random(seed)
    for number in range(sessions):
        turns = [Told(f"fix the typo in part {number}", ("Edit",) * (7 if chance.random() < 0.8 else 1))]
        path = folder / f"rollout-{number}.jsonl"
        path.write_text(codex_log(turns, BEGAN + timedelta(hours=number), id=f"s{number}"))
        os.utime(path, (1_000 + number, 1_000 + number))
