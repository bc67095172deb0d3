"""The operator's own policies, from a file or an installed package: checked against the contract, switched off on failure."""

import ast
import importlib
import importlib.util
import inspect
import itertools
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, cast

import orjson

from router.config.own_policies import OwnPolicy, PolicyUnusable
from router.config.settings import field_notes
from router.contract.exchange import Arrival
from router.contract.notices import Notice, Trouble
from router.contract.opinions import Insist, Lean, MayHook, Opinion, Policy, PolicyConfig, RuleOut
from router.contract.request import JsonObject, Moment, RequestView
from router.contract.signals import Alias, Signals, TokenCount, Turn
from router.contract.target import Speed, Target, TargetStatus, Timeouts
from router.contract.words import DEFAULT_DIALECT, Feature, Operation, Tier, TurnKind
from router.dialects.requests import read_request
from router.sense.features import read_features
from router.telemetry import events
from router.wiring.registry import POLICIES

_IMPURE = frozenset(("time", "datetime", "random", "os", "socket", "asyncio", "pathlib", "structlog", "logging", "subprocess"))
_METHODS = ("judge", "may")
_LEAST_WORDS = 3
"""In a setting's sentence."""
_BODIES: tuple[JsonObject, ...] = (
    {"messages": [{"role": "user", "content": "fix it"}]},
    {"messages": [{"role": "user", "content": "x" * 20_000}], "reasoning_effort": "max"},
    {"messages": [{"role": "user", "content": "go on"}], "tools": [], "stream": True},
)


def open_policy(source: str, *, is_package: bool) -> type[Policy]:
    """The one policy of a file or package. Raises `PolicyUnusable` if it is missing or breaks the contract."""
    try:
        module = importlib.import_module(source) if is_package else _run_file(Path(source))
    except (Exception, SystemExit) as error:
        raise PolicyUnusable(f"{type(error).__name__}: {error}") from error
    found = [kind for kind in vars(module).values() if inspect.isclass(kind) and _is_policy_of(kind, module)]
    if len(found) != 1:
        raise PolicyUnusable(f"it has {len(found) or 'no'} classes with a method `judge` or `may`, and needs one")
    if breach := next(find_breaches(found[0]), ""):
        raise PolicyUnusable(breach)
    return cast("type[Policy]", found[0])


def _run_file(path: Path) -> ModuleType:
    """Run a file as a fresh module, so that a reload sees its changes."""
    name = f"tandem_own_policy_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} is not a Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # pydantic looks types up there
    spec.loader.exec_module(module)
    return module


def _is_policy_of(kind: type, module: ModuleType) -> bool:
    is_own = kind.__module__.partition(".")[0] == module.__name__.partition(".")[0]
    return is_own and not getattr(kind, "_is_protocol", False) and any(callable(getattr(kind, name, None)) for name in _METHODS)


def find_breaches(kind: Any) -> Iterator[str]:
    """Breaches of the policy contract, in the best order to fix them."""
    config = getattr(kind, "Config", None)
    if not isinstance(getattr(kind, "name", None), str) or not kind.name:
        yield f"{kind.__name__} needs a `name`"
    elif kind.name in POLICIES and POLICIES[kind.name] is not kind:
        yield f'the name "{kind.name}" belongs to a policy of Tandem\'s own'
    elif not (isinstance(config, type) and issubclass(config, PolicyConfig)):
        yield f"{kind.__name__} needs a `Config`, a subclass of PolicyConfig"
    else:
        yield from _find_unclear(kind, config)
        yield from _find_impure(kind)
        yield from _find_misjudged(kind, config)


def _find_unclear(kind: type, config: type[PolicyConfig]) -> Iterator[str]:
    if not kind.__doc__:
        yield f"{kind.__name__} needs a docstring"
    notes = field_notes(config)
    for name in config.model_fields:
        if len(notes.get(name, "").split()) < _LEAST_WORDS:
            yield f"the setting `{name}` needs a sentence below it that says what it does"


def _find_impure(kind: type) -> Iterator[str]:
    module = inspect.getmodule(kind)
    for node in ast.walk(ast.parse(inspect.getsource(module) if module is not None else "")):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in _IMPURE.intersection(name.partition(".")[0] for name in names):
            yield f"it imports {name}: a policy reads its request and signals alone (the time is request.moment.now)"


def _find_misjudged(kind: Any, config: type[PolicyConfig]) -> Iterator[str]:
    try:
        policy = kind(config())
        for view, signals in _samples():
            if callable(getattr(policy, "may", None)):
                yield from _find_misheld(policy, view, signals)
            if not callable(getattr(policy, "judge", None)):
                continue
            opinions = policy.judge(view, signals)
            if not isinstance(opinions, tuple) or not all(isinstance(one, Insist | RuleOut | Lean) for one in opinions):
                yield f"judge returned {opinions!r:.60}, not a tuple of opinions"
            elif not all(one.because for one in opinions):
                yield "judge returned an opinion without `because`"
            elif policy.judge(view, signals) != opinions:
                yield "judge returned other opinions for the same request"
    except Exception as error:  # noqa: BLE001  whatever a foreign policy raises
        yield f"it raised {type(error).__name__}: {error}"


def _find_misheld(hook: Any, view: RequestView, signals: Signals) -> Iterator[str]:
    for status in signals.statuses.values():
        reason = hook.may(view, status.target)
        if reason is not None and not isinstance(reason, str):
            yield f"may returned {reason!r:.60}, not a reason or None"
        elif reason != hook.may(view, status.target):
            yield "may returned another reason for the same request"


def _samples() -> Iterable[tuple[RequestView, Signals]]:
    """Every kind of turn with every kind of body, at every hour."""
    targets = [
        Target(
            name=str(tier),
            tier=tier,
            speaks=frozenset((DEFAULT_DIALECT,)),
            accepts=frozenset(Feature),
            window_tokens=128_000,
            typical=Speed(0.2, 1_000, 60_000),
            timeouts=Timeouts(1, 2, 2),
            price=None,
        )
        for tier in Tier
    ]
    statuses = {target.name: TargetStatus(target, target.typical, 0.0) for target in targets}
    for body, hour in itertools.product(_BODIES, range(24)):
        raw, moment = orjson.dumps({"model": "auto", **body}), Moment(hour * 3_600.0)
        view = read_request(Arrival("req_sample", DEFAULT_DIALECT, Operation.CREATE, {}, raw, moment=moment))
        for kind in TurnKind:
            text = "fix it" if kind is TurnKind.ASK else None
            turn = Turn(kind, "session", "unknown", text, text)
            features = read_features(text) if text else None
            yield view, Signals(turn, TokenCount(100, 100, 100), Alias("auto"), statuses, view.effort, features)


class Guarded:
    """An own policy in use, silent after it has raised once, until a reload."""

    name: ClassVar[str] = ""
    Config: ClassVar[type[PolicyConfig]] = PolicyConfig

    def __init__(self, own: OwnPolicy) -> None:
        self._source = own.source
        vars(self)["name"] = own.name
        self._policy: object = None
        self._judges = self.has_hook = False
        self.notice: Notice | None = None
        if own.kind is None:
            self._switch_off(own.trouble)
            return
        try:
            self._policy = cast("Any", own.kind)(own.settings)
            self._judges, self.has_hook = (callable(getattr(self._policy, name, None)) for name in _METHODS)
        except Exception as error:  # noqa: BLE001  whatever a foreign policy raises
            self._switch_off(f"{type(error).__name__}: {error}")

    def judge(self, request: RequestView, signals: Signals) -> tuple[Opinion, ...]:
        if not self._judges:
            return ()
        try:
            return cast("Policy", self._policy).judge(request, signals) or ()
        except Exception as error:
            self._switch_off(f"{type(error).__name__}: {error}")
            raise  # so that this decision names it

    def may(self, request: RequestView, target: Target) -> str | None:
        if not self.has_hook:
            return None
        try:
            return cast("MayHook", self._policy).may(request, target)
        except Exception as error:  # noqa: BLE001  whatever a foreign hook raises
            self._switch_off(f"{type(error).__name__}: {error}")
            return None

    def _switch_off(self, why: str) -> None:
        self._judges = self.has_hook = False
        text = f"policy {self.name}: switched off. {self._source}: {why}"
        self.notice = Notice(Trouble.POLICY_OFF, self.name, time.time(), text, "mend the file, then tandem reload")
        events.policy_switched_off(policy=self.name, source=self._source, why=why)


def list_hooks(policies: Iterable[Policy]) -> list[MayHook]:
    return [policy for policy in policies if isinstance(policy, Guarded) and policy.has_hook]


def list_troubles(policies: Iterable[Policy]) -> list[Notice]:
    return [policy.notice for policy in policies if isinstance(policy, Guarded) and policy.notice is not None]
