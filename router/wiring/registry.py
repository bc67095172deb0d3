"""Names → classes: the one place that sees policies and adapters. A new one is imported and named here."""

from collections.abc import Iterator, Mapping

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

    _names = ("openai_http", "anthropic_http", "litellm", "simulated")

    def __getitem__(self, name: str) -> type[Adapter]:
        match name:
            case "openai_http":
                from adapters.openai_http import OpenAiHttpAdapter

                return OpenAiHttpAdapter
            case "anthropic_http":
                from adapters.anthropic_http import AnthropicHttpAdapter

                return AnthropicHttpAdapter
            case "litellm":
                from adapters.litellm import LitellmAdapter

                return LitellmAdapter
            case "simulated":
                from adapters.simulated import SimulatedAdapter

                return SimulatedAdapter
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


ADAPTERS: Mapping[str, type[Adapter]] = _Adapters()
