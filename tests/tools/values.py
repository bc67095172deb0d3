"""Short ways to make the values that pure code is fed with."""

import json
from collections.abc import Mapping

from router.contract.exchange import Arrival
from router.contract.request import RequestView
from router.contract.signals import Alias, SessionHistory, Signals, TokenCount, Turn
from router.contract.target import Price, Speed, Target, TargetStatus, Timeouts
from router.contract.words import Dialect, Feature, Operation, Tier, TurnKind
from router.dialects.histories import NO_HISTORIES
from router.dialects.requests import read_request
from router.sense.features import read_features

EVERYTHING = frozenset(Feature)


def make_view(body: dict, dialect: Dialect = Dialect.CHAT, headers: Mapping[str, str] | None = None, **more) -> RequestView:
    full = {"model": "auto", **body}
    operation = more.get("operation", Operation.CREATE)
    arrival = Arrival("req_test", dialect, operation, headers or {}, json.dumps(full).encode())
    return read_request(arrival, more.get("known", NO_HISTORIES))


def ask(text: str = "hello", headers: Mapping[str, str] | None = None, **body) -> RequestView:
    return make_view({"messages": [{"role": "user", "content": text}], **body}, headers=headers)


def make_target(name: str = "spark", tier: Tier = Tier.FAST, **more) -> Target:
    fast = tier is Tier.FAST
    values = {
        "speaks": frozenset({Dialect.CHAT}),
        "accepts": EVERYTHING,
        "window_tokens": 128_000 if fast else 400_000,
        "typical": Speed(0.2, 1000, 60_000) if fast else Speed(0.9, 65, 60_000),
        "timeouts": Timeouts(1, 2, 2),
        "price": None,
        **more,
    }
    return Target(name=name, tier=tier, **values)


def stand(target: Target, wait: float = 0.0, **speed) -> TargetStatus:
    typical = target.typical
    now = Speed(
        speed.get("ttft", typical.ttft_seconds),
        speed.get("speed", typical.tokens_per_second),
        speed.get("prefill", typical.prefill_tokens_per_second),
    )
    return TargetStatus(target, now, wait)


def make_signals(
    *statuses: TargetStatus, text: str | None = "hello", kind: TurnKind = TurnKind.ASK, tokens: int = 100, **more
) -> Signals:
    chosen = statuses or (stand(make_target()), stand(make_target("sage", Tier.DEEP)))
    history = more.pop("history", SessionHistory())
    turn = Turn(
        kind,
        "s",
        "test",
        text,
        text,
        **{
            key: more.pop(key)
            for key in ("is_planning", "line", "wish", "usual_efforts", "position", "plan", "trajectory")
            if key in more
        },
        history=history,
    )
    return Signals(
        turn=turn,
        prompt=TokenCount(tokens, tokens, tokens),
        alias=more.pop("alias", Alias("auto")),
        statuses={status.target.name: status for status in chosen},
        features=read_features(text) if text else None,
        earlier=tuple(read_features(past.words) for past in reversed(history.last)),
        **more,
    )


PRICE = Price(input=1.0, output=8.0, cached_input=0.1)
