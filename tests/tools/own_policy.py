"""A policy of an operator's own, as a file."""

from tests.conftest import SIMULATED

NIGHT = '''"""Leans deep at night."""

from typing import ClassVar

from router.api import Lean, Opinion, PolicyConfig, RequestView, Signals


class NightConfig(PolicyConfig):
    """When the night is."""

    from_hour: int = 22
    """The first hour of the night."""


class NightPolicy:
    """Leans deep at night, when nobody waits."""

    name: ClassVar[str] = "night"
    Config: ClassVar[type[PolicyConfig]] = NightConfig

    def __init__(self, config: NightConfig) -> None:
        self._from_hour = config.from_hour

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        return (Lean(0.5, "it is night"),) if request.moment.now.hour >= self._from_hour else ()
'''
OWN = SIMULATED + "policies:\n  - file: ./night.py\n    settings: {from_hour: 0}\n"
