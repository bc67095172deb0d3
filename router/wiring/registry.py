"""Names → classes: the one place that sees policies and adapters. A new one is imported and named here."""

from adapters.anthropic_http import AnthropicHttpAdapter
from adapters.litellm import LitellmAdapter
from adapters.openai_http import OpenAiHttpAdapter
from adapters.simulated import SimulatedAdapter
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
ADAPTERS: dict[str, type[Adapter]] = {
    adapter.name: adapter
    for adapter in (
        OpenAiHttpAdapter,
        AnthropicHttpAdapter,
        LitellmAdapter,
        SimulatedAdapter,
    )
}
