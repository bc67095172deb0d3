"""Short ways to make the values that pure code is fed with."""

import json
from collections.abc import Mapping

from router.contract.request import RequestView
from router.contract.signals import Alias, History, Signals, TokenCount, Turn
from router.contract.target import Pace, Price, Standing, Target, Timeouts
from router.contract.words import Dialect, Feature, Operation, Tier, TurnKind
from router.dialects.requests import Arrival, read_request
from router.sense.features import read_features

EVERYTHING = frozenset(Feature)


def make_view(body: dict, dialect: Dialect = Dialect.CHAT, headers: Mapping[str, str] | None = None, **more) -> RequestView:
    full = {"model": "auto", **body}
    operation = more.get("operation", Operation.CREATE)
    return read_request(Arrival("req_test", dialect, operation, headers or {}, json.dumps(full).encode()))


def ask(text: str = "hello", headers: Mapping[str, str] | None = None, **body) -> RequestView:
    return make_view({"messages": [{"role": "user", "content": text}], **body}, headers=headers)


def make_target(name: str = "spark", tier: Tier = Tier.FAST, **more) -> Target:
    fast = tier is Tier.FAST
    values = {
        "speaks": frozenset({Dialect.CHAT}),
        "accepts": EVERYTHING,
        "window_tokens": 128_000 if fast else 400_000,
        "typical": Pace(0.2, 1000, 60_000) if fast else Pace(0.9, 65, 60_000),
        "timeouts": Timeouts(1, 2, 2),
        "price": None,
        **more,
    }
    return Target(name=name, tier=tier, **values)


def stand(target: Target, wait: float = 0.0, **pace) -> Standing:
    typical = target.typical
    now = Pace(
        pace.get("ttft", typical.ttft_seconds),
        pace.get("speed", typical.tokens_per_second),
        pace.get("prefill", typical.prefill_tokens_per_second),
    )
    return Standing(target, now, wait)


def make_signals(
    *standings: Standing, text: str | None = "hello", kind: TurnKind = TurnKind.ASK, tokens: int = 100, **more
) -> Signals:
    chosen = standings or (stand(make_target()), stand(make_target("sage", Tier.DEEP)))
    history = more.pop("history", History())
    turn = Turn(
        kind,
        "s",
        "test",
        text,
        text,
        **{key: more.pop(key) for key in ("is_planning", "tier_wish", "usual_efforts", "place") if key in more},
        history=history,
    )
    return Signals(
        turn=turn,
        prompt=TokenCount(tokens, tokens, tokens),
        alias=more.pop("alias", Alias("auto")),
        standings={standing.target.name: standing for standing in chosen},
        features=read_features(text, history, offers_tools=more.pop("offers_tools", False), follows=more.pop("follows", False))
        if text
        else None,
        **more,
    )


PRICE = Price(input=1.0, output=8.0, cached_input=0.1)
