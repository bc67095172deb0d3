"""Names → classes: the one place that sees policies and adapters. A new one is imported and named here."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import ClassVar, cast

from policies.background import BackgroundPolicy as BackgroundPolicy
from policies.boundary import BoundaryPolicy
from policies.budget import BudgetPolicy as BudgetPolicy
from policies.capability import CapabilityPolicy
from policies.credential import CredentialPolicy as CredentialPolicy
from policies.effort import EffortPolicy
from policies.learned import LearnedPolicy as LearnedPolicy
from policies.override import OverridePolicy
from policies.plan_then_edit import PlanThenEditPolicy as PlanThenEditPolicy
from policies.rights import RightsPolicy as RightsPolicy
from policies.rules import RulesPolicy
from policies.side_request import SideRequestPolicy
from policies.subagent import SubagentPolicy as SubagentPolicy
from policies.trajectory import TrajectoryPolicy
from policies.window import WindowPolicy
from router.contract.relay import Adapter

POLICIES = {
    policy.name: policy
    for policy in (
        OverridePolicy,
        RulesPolicy,
        CapabilityPolicy,
        WindowPolicy,
        SideRequestPolicy,
        EffortPolicy,
        LearnedPolicy,
        BoundaryPolicy,
        TrajectoryPolicy,
    )
}


class _Adapters(Mapping[str, type[Adapter]]):
    """Each is imported when it is asked for: a config names one or two."""

    _places: ClassVar[Mapping[str, tuple[str, str]]] = {
        "openai_http": ("adapters.openai_http", "OpenAiHttpAdapter"),
        "anthropic_http": ("adapters.anthropic_http", "AnthropicHttpAdapter"),
        "litellm": ("adapters.litellm", "LitellmAdapter"),
        "simulated": ("adapters.simulated", "SimulatedAdapter"),
    }

    def __getitem__(self, name: str) -> type[Adapter]:
        module, kind = self._places[name]
        return cast("type[Adapter]", getattr(import_module(module), kind))

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


ADAPTERS: Mapping[str, type[Adapter]] = _Adapters()
