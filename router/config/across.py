"""Checks across blocks of a config, and warnings about what is valid but rarely meant."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from router.config.faults import ConfigError, Fault, Known, check_block, close_to
from router.config.models import SHIPPED_MODELS, SHIPPED_POLICIES, LedgerSettings
from router.config.own_policies import is_own
from router.config.reading import expand
from router.config.target_settings import TargetSettings
from router.config.targets import TargetBlock, TargetPlan
from router.contract.combine import Combine
from router.contract.keys import KeyRing
from router.contract.opinions import PolicyConfig
from router.contract.rights import Rights
from router.contract.secret import Secret, looks_like_key

_RULES = "rules"
_PASSED = "pass_through"
_DAYS_OF_A_MONTH = 31
_SHOWN = 3
_HTTP = ("", "http", "https")
_PROMPT, _MAX_QUESTION = "combine.look.prompt", 8_000
_LEAST_PRICE = 0.001


def check_policies(entries: Sequence[Any], folder: Path, known: Known, faults: list[Fault]) -> list[tuple[str, PolicyConfig]]:
    """The shipped policies that are listed; all of them where only the operator's own are."""
    found: list[tuple[str, PolicyConfig]] = []
    if all(map(is_own, entries)) and entries:
        entries = (*SHIPPED_POLICIES, *entries)
    for index, entry in enumerate(entries):
        if is_own(entry):
            continue
        path, named = f"policies[{index}]", {entry: None} if isinstance(entry, str) else entry
        name, content = next(iter(named.items())) if isinstance(named, dict) and len(named) == 1 else (None, None)
        if not isinstance(name, str) or not isinstance(content, dict | None):
            faults.append(Fault(path, "must be a name, or one name with its settings"))
        elif name not in known.policies:
            hint = f"{close_to(name, known.policies)}known: {', '.join(known.policies)}"
            faults.append(Fault(path, f'unknown policy "{name}"', hint))
        elif name in (seen for seen, _ in found):
            faults.append(Fault(path, f'duplicate policy "{name}"'))
        else:
            settings = check_block(known.policies[name], content, f"{path}.{name}", faults)
            if isinstance(settings, PolicyConfig):
                found.append((name, settings.rooted(folder)))
                _check_weights(found[-1][1], f"{path}.{name}", faults)
    return found


def _check_weights(settings: PolicyConfig, path: str, faults: list[Fault]) -> None:
    try:
        _ = settings.fingerprint
    except ValueError as error:
        faults.append(Fault(f"{path}.weights", str(error), "make train in a checkout of Tandem writes them"))


def check_rules(rules: Sequence[object], policies: list[tuple[str, PolicyConfig]], known: Known, faults: list[Fault]) -> None:
    """Rules apply whether or not their policy is listed. Without any, requests skip it."""
    own = [entry for entry in policies if entry[0] == _RULES and entry[1] != known.policies[_RULES]()]
    policies[:] = [*(entry for entry in policies if entry[0] != _RULES), *own]
    if not rules:
        return
    if own:
        faults.append(Fault("rules", "set both at the top level and under policies", "keep only the top-level rules"))
    for index, rule in enumerate(rules):
        when = rule.get("when") if isinstance(rule, dict) else None
        client = when.get("client") if isinstance(when, dict) else None
        if isinstance(client, str) and client not in known.clients:
            hint = f"{close_to(client, known.clients)}known: {', '.join(known.clients)}"
            faults.append(Fault(f"rules[{index}].when.client", f'unknown client "{client}"', hint))
    settings = check_block(known.policies[_RULES], {"rules": list(rules)}, "", faults)
    if isinstance(settings, PolicyConfig):
        policies[:] = [*(entry for entry in policies if entry[0] != _RULES), (_RULES, settings)]


def fingerprint_of(policies: Sequence[tuple[str, PolicyConfig]]) -> str:
    return next((settings.fingerprint for _, settings in policies if settings.fingerprint), "")


def check_models(models: Mapping[str, str | None], names: set[str], faults: list[Fault]) -> None:
    for name, meaning in models.items():
        if meaning is None:
            _check_taken(name, faults)
        elif meaning not in ("auto", "fast", "deep") and meaning not in names:
            known = ", ".join(("auto", "fast", "deep", *sorted(names - {""})))
            faults.append(Fault(f"models.{name}", f'"{meaning}" is neither a tier nor a target', f"known: {known}"))


def _check_taken(name: str, faults: list[Fault]) -> None:
    """`NAME: null`. `auto` must stay, as clients ask for it by default."""
    if name == "auto":
        faults.append(Fault("models.auto", "cannot be removed", "give it a meaning: auto, fast, deep or a target's name"))
    elif name != "*" and name not in SHIPPED_MODELS:
        hint = f"{close_to(name, SHIPPED_MODELS)}tandem check lists them"
        faults.append(Fault(f"models.{name}", "null removes a built-in name, and this is not one", hint))


def check_store(store: str | None, ledger: str | None, folder: Path, faults: list[Fault]) -> None:
    if store and ledger and (folder / expand(store)).resolve() == (folder / expand(ledger)).resolve():
        faults.append(Fault("store.path", "is the same file as the ledger", "give it another name, such as responses.db"))


def check_combine(combine: Combine, folder: Path, faults: list[Fault]) -> Combine:
    """With the question to deep, as its file has it."""
    name = combine.look.prompt
    if name is None:
        return combine
    question = ""
    try:
        question = (folder / expand(name)).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        faults.append(Fault(_PROMPT, f"{name} cannot be read: {reason}"))
    else:
        if not 0 < len(question) <= _MAX_QUESTION:
            size = f"has {len(question):,} characters" if question else "is empty"
            faults.append(Fault(_PROMPT, f"{name} {size}", f"write 1 to {_MAX_QUESTION:,} characters"))
    return replace(combine, look=replace(combine.look, question=question))


def check_passed(
    named: Iterable[tuple[str, str]], targets: Mapping[str, TargetSettings], known: Known, faults: list[Fault]
) -> None:
    """Only targets with an address: libraries and simulations have only create calls. A plan is for its client's own calls."""
    names = sorted(filter(None, targets))
    able = [name for name in names if _has_routes(targets[name], known)]
    for route, name in named:
        path = f"{_PASSED}.{route}"
        if name not in targets:
            faults.append(_unknown(path, name, names))
        elif name not in able:
            problem = f'"{name}" cannot serve {route}: adapter {targets[name].adapter} handles conversations only'
            hint = f"name one of {', '.join(able)}" if able else "name a target with adapter: openai_http or anthropic_http"
            faults.append(Fault(path, problem, hint))
        elif targets[name].billing == "plan":
            problem = f'"{name}" is a plan, which serves only the conversations of its own client'
            faults.append(Fault(path, problem, "name a target with an API key"))


def _unknown(path: str, name: str, known: Sequence[str]) -> Fault:
    return Fault(path, f'"{name}" is not a target', f"{close_to(name, known)}known: {', '.join(known)}")


def _has_routes(settings: TargetSettings, known: Known) -> bool:
    return hasattr(known.adapters.get(settings.adapter), "open_route")


def check_budgets(
    keys: KeyRing | None,
    targets: Sequence[TargetPlan],
    paths: Mapping[str, str],
    ledger: LedgerSettings,
    faults: list[Fault],
) -> None:
    """Check that the spending of callers with budgets can be known and stored. `paths` are places by target."""
    owners = _owners(keys)
    if not owners:
        return
    for plan in targets:
        target = plan.target
        served = [name for name, own in owners.items() if target.tier in own.tiers]
        if target.price is None and served:
            problem = f'target "{target.name}" has no price, which {_name(served)} need'
            hint = f"set its price, in USD per million tokens, or leave {target.tier} out of their tiers in keys.yaml"
            faults.append(Fault(f"{paths[target.name]}.price", problem, hint))
    if not ledger.path:
        problem = f"{_name(list(owners))} need a ledger: without one, a restart would forget what was spent"
        faults.append(Fault("ledger.path", problem, "set a path, such as tandem.db"))


def check_recorded(keys: KeyRing | None, source: str, *, with_ledger: bool) -> None:
    """Raises `ConfigError`."""
    owners = list(_owners(keys))
    if owners and not with_ledger:
        problem = f"{_name(owners)} need one: without a ledger, a restart would forget what was spent"
        raise ConfigError(source, [Fault("ledger", problem, "start without --no-ledger, or remove the budgets")])


def warn_of_short_ledger(keys: KeyRing | None, ledger: LedgerSettings) -> list[str]:
    """Warn of a ledger that deletes entries before a budget's month is over."""
    owners = [name for name, own in _owners(keys).items() if own.monthly_usd is not None]
    if not owners or ledger.keep_days >= _DAYS_OF_A_MONTH:
        return []
    return [
        f"ledger.keep_days: {ledger.keep_days} days are less than a month, so a restart late in a month forgets a part of what"
        f" was spent in it; {_name(owners)} need {_DAYS_OF_A_MONTH}"
    ]


def _owners(keys: KeyRing | None) -> dict[str, Rights]:
    rights = keys.rights if keys is not None else {}
    return {name: own for name, own in rights.items() if own.has_budget}


def _name(callers: list[str]) -> str:
    more = f" and {len(callers) - _SHOWN} more" if len(callers) > _SHOWN else ""
    return f"the budgets of {', '.join(callers[:_SHOWN])}{more}"


def block_warnings(blocks: Iterable[TargetBlock]) -> list[str]:
    found = []
    for block in blocks:
        settings, path = block.settings, block.path
        key = Secret(settings.api_key) if settings.api_key else None
        if key is not None and not key.is_reference and not key.is_callers:
            found.append(f"{path}.api_key: the key is written in the config file; use env:NAME to keep it out")
        if key is not None and key.is_padded:
            found.append(f"{path}.api_key: {key} has spaces or a line break around it, which are ignored")
        for name, value in {**settings.headers, **settings.query}.items():
            if looks_like_key(value) and "env:" not in value:
                found.append(f"{path}: the value of {name} looks like a key; use env:NAME to keep it out of the config file")
        if settings.price is not None and 0 < settings.price.output < _LEAST_PRICE:
            price = f"{settings.price.output:g} looks like a price per token"
            found.append(f"{path}.price: is in USD per million tokens; {price}")
    return found


def proxy_warnings(addresses: Iterable[str]) -> list[str]:
    """Warn of proxy variables that would fail or be ignored, for targets that Tandem dials itself."""
    if not any(_may_need_a_proxy(address) for address in addresses):
        return []
    used = next((name for name in ("HTTPS_PROXY", "https_proxy") if os.environ.get(name)), "")
    if used:
        scheme = _scheme(os.environ[used])
        if scheme in _HTTP:
            return []
        return [f"{used} names a {scheme}:// proxy, which is not supported: use an http:// proxy, or list hosts in NO_PROXY"]
    unused = next((name for name in ("ALL_PROXY", "all_proxy") if os.environ.get(name)), "")
    if not unused or os.environ.get("NO_PROXY") == "*" or os.environ.get("no_proxy") == "*":
        return []
    if _scheme(os.environ[unused]) in _HTTP:
        return [f"{unused} is not read, so targets are reached without a proxy: set HTTPS_PROXY to the same value"]
    return [f"{unused} is not read, and SOCKS proxies are not supported, so targets are reached without a proxy"]


def _scheme(url: str) -> str:
    scheme, separator, _ = url.strip().partition("://")  # not parsed: a password may make it invalid
    return scheme.lower() if separator else ""


def _may_need_a_proxy(address: str) -> bool:
    parts = urlsplit(address)
    host = parts.hostname or ""
    return parts.scheme == "https" and host not in ("localhost", "::1") and not host.startswith("127.")
