"""The `x-tandem-*` request headers. Unknown ones are refused, so that a typo is noticed."""

from collections.abc import Mapping

from router.contract.combine import COMBINE, LOOK, OFF, PLAN
from router.contract.errors import UnknownOverride
from router.contract.request import Overrides
from router.contract.secret import ROUTER_KEY, UPSTREAM_KEY
from router.contract.words import Tier

PREFIX = "x-tandem-"
FRAMES = "x-tandem-frames"
SUPERSEDE = "x-tandem-supersede"
JOB_SESSION = "x-tandem-job-session"
_TIERS = {"fast": Tier.FAST, "deep": Tier.DEEP, "auto": None}
_CHOICES: dict[str, tuple[str, ...]] = {
    "x-tandem-tier": ("fast", "deep", "auto"),
    "x-tandem-scope": ("request", "session"),
    "x-tandem-on-misfit": ("error", "other"),
    "x-tandem-explain": ("full",),
    FRAMES: ("1", "0"),
}
HEADERS = {
    "x-tandem-tier": "`fast`, `deep` or `auto`: the tier asked for.",
    "x-tandem-scope": "`request` (default) or `session`: how long that applies. `session` needs a named session.",
    "x-tandem-session": "The session's id, 1 to 200 characters, for clients without one.",
    JOB_SESSION: "With `background: true`: the session to notify, by its name in `tandem log --sessions --json`.",
    SUPERSEDE: "A name: a newer request of the session with it cancels this one.",
    "x-tandem-max-wait": "Seconds: targets with a longer wait are ruled out.",
    "x-tandem-on-misfit": "`error` (default) or `other`: if the requested tier cannot serve.",
    COMBINE: "`off`, `plan`, `look` or `plan,look`: use of [both tiers](../use/both-tiers.md).",
    ROUTER_KEY: "The [router's key](../run/teams.md), if `authorization` and `x-api-key` are your own.",
    UPSTREAM_KEY: "Your own key, for targets with `api_key: caller` only.",
    "x-tandem-explain": "`full`: the decision, shortened if long, in a header of that name.",
    FRAMES: "`1`: a [WebSocket](../use/websocket.md) also sends `tandem.decision` and `tandem.queued`.",
}
"""Every override with its text for the reference page."""
_NO_OVERRIDES = Overrides()


def read_overrides(headers: Mapping[str, str]) -> Overrides:
    if PREFIX not in "".join(headers):
        return _NO_OVERRIDES
    given = {name: value.strip() for name, value in headers.items() if name.startswith(PREFIX)}
    for name, value in given.items():
        choices = _CHOICES.get(name)
        if choices is not None and value.lower() not in choices:
            raise UnknownOverride(f'{name}: unknown value "{value[:40]}". Known: {", ".join(choices)}', param=name)
        if name not in HEADERS:
            raise UnknownOverride(f"{name[:60]}: unknown override. Known: {', '.join(sorted(HEADERS))}", param=name[:60])
    if not given.get(UPSTREAM_KEY, "x"):
        raise UnknownOverride(f"{UPSTREAM_KEY}: is empty. Send the key", param=UPSTREAM_KEY)
    tier = given.get("x-tandem-tier", "").lower()
    for_session = given.get("x-tandem-scope", "").lower() == "session"
    if for_session and not tier:
        raise UnknownOverride("x-tandem-scope: session needs x-tandem-tier: fast, deep or auto", param="x-tandem-scope")
    return Overrides(
        tier=_TIERS.get(tier),
        clears=tier == "auto",
        for_session=for_session,
        session=read_name("x-tandem-session", given),
        supersede=read_name(SUPERSEDE, given),
        max_wait_seconds=_read_seconds(given.get("x-tandem-max-wait")),
        combine=_read_combine(given.get(COMBINE)),
        other_on_misfit=given.get("x-tandem-on-misfit", "").lower() == "other",
        explain_fully=given.get("x-tandem-explain", "").lower() == "full",
    )


def read_name(header: str, given: Mapping[str, str]) -> str | None:
    """The name in a header, or None. Raises `UnknownOverride`."""
    value = given.get(header)
    if value is not None and not (0 < len(value) <= 200 and value.isprintable()):
        raise UnknownOverride(f"{header}: send 1 to 200 printable characters", param=header)
    return value


def _read_combine(value: str | None) -> str | None:
    if value is None:
        return None
    named = [word.strip() for word in value.lower().split(",")]
    if named == [OFF]:
        return ""
    if not {*named} <= {PLAN, LOOK}:
        raise UnknownOverride(f'{COMBINE}: unknown value "{value[:40]}". Known: off, plan, look, "plan,look"', param=COMBINE)
    return ",".join(word for word in (PLAN, LOOK) if word in named)


def _read_seconds(value: str | None) -> float | None:
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86_400:
        raise UnknownOverride(
            f'x-tandem-max-wait: "{value[:40]}" is not a number of seconds from 0 to 86400', param="x-tandem-max-wait"
        )
    return seconds
