"""The settings of the decision: what time is worth, what a turn takes, and how much a redo is feared."""

import math

from msgspec import Struct
from msgspec.structs import force_setattr


class TurnSize(Struct, frozen=True):
    """What a turn of one kind takes: calls of the model, and tokens that it writes."""

    calls: float
    output_tokens: float


class Economics(Struct, frozen=True):
    """The settings of the decision. `redo_factor` is that of the preference in force."""

    value_of_time_usd_per_hour: float
    redo_factor: float
    hop_seconds: float
    quick: TurnSize
    long: TurnSize
    base_rate: float
    personal_log_odds: float = 0.0
    usd_per_second: float = 0.0
    """Follows from the value of an hour."""
    prior: float = 0.0
    """The log-odds of a long task before anything is known. Follows from the base rate."""

    def __post_init__(self) -> None:
        force_setattr(self, "usd_per_second", self.value_of_time_usd_per_hour / 3600.0)
        force_setattr(self, "prior", math.log(self.base_rate / (1 - self.base_rate)))
