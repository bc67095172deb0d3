"""Current problems, for the page, `/tandem/notices` and the webhook."""

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from router.contract.words import AccountFault, Word

_RELOAD = "then tandem reload; tandem check --live checks it"
ACCOUNT_FAULTS = {
    AccountFault.KEY: ("its host refuses the API key", f"put a working key in place, {_RELOAD}"),
    AccountFault.CREDIT: ("its account has no credit left", "add credit at the host; tandem check --live checks it"),
    AccountFault.REGION: ("its host does not serve this region", "tandem check --live"),
    AccountFault.MODEL: ("its host does not know the configured model", f"set another model, {_RELOAD}"),
}
"""What keeps a target from serving until the operator acts, and what to do."""


class Trouble(Word):
    TARGET_OUT = "target_out"
    """A target rests after failures, or asked for a long rest."""
    KEY_REFUSED = "key_refused"
    BUDGET_NEAR = "budget_near"
    BUDGET_SPENT = "budget_spent"
    PLAN_USED_UP = "plan_used_up"
    """A caller's own plan is used up until a time that its vendor named."""
    LEDGER_LOSING = "ledger_losing"
    """Rows are lost, or cannot be written."""
    POLICY_OFF = "policy_off"
    """An own policy failed, and is switched off."""
    LOOKS_WAVED_OFF = "looks_waved_off"
    """Nobody acts on what deep objects to."""
    STORE_AWAY = "store_away"
    """A store cannot be used: one on disk, or one that routers share."""

    @property
    def is_of_target(self) -> bool:
        """Such a notice concerns every caller."""
        return self in (Trouble.TARGET_OUT, Trouble.KEY_REFUSED)

    @property
    def is_of_store(self) -> bool:
        return self in (Trouble.LEDGER_LOSING, Trouble.STORE_AWAY)

    @property
    def is_of_caller(self) -> bool:
        """Such a notice is only for its caller and admins."""
        return self in (Trouble.BUDGET_NEAR, Trouble.BUDGET_SPENT, Trouble.PLAN_USED_UP)


Place = tuple[str, str]
"""What a notice is about (a target, a caller, a caller's plan, else its kind), and the name."""


class Notice(Struct, frozen=True, omit_defaults=True):
    kind: Trouble
    subject: str
    """The name of a target, caller or store; empty for the router itself and its ledger."""
    since: float
    """Seconds since 1970."""
    text: str
    """No full stop: "fast-1: its host refuses the API key"."""
    hint: str
    """What to do, such as "tandem check --live"."""
    plan: str = ""
    """Tells a caller's plans apart: a hash of target and login."""

    @property
    def place(self) -> Place:
        """One notice at a time has this key: a spent budget replaces a nearly spent one."""
        kind = self.kind
        if kind is Trouble.PLAN_USED_UP:
            return "plan", f"{self.subject} {self.plan}"
        return "caller" if kind.is_of_caller else "target" if kind.is_of_target else kind, self.subject


Notices = Callable[[], Sequence[Notice]]


_OWN_HINT, _PLAN_HINT = "wait until then, or ask the operator of this router for more", "wait until then"
_OTHERS_HINT = "ask the operator of this router"


def visible_to(caller: str, notices: Sequence[Notice], *, is_admin: bool) -> list[Notice]:
    """All notices for an admin; for a caller those about targets and itself, with hints that it can follow."""
    if is_admin:
        return [*notices]
    return [
        replace(notice, hint=_hint_for(notice.kind))
        for notice in notices
        if notice.kind.is_of_target or (notice.kind.is_of_caller and notice.subject == caller)
    ]


def _hint_for(kind: Trouble) -> str:
    if kind is Trouble.PLAN_USED_UP:
        return _PLAN_HINT
    return _OWN_HINT if kind.is_of_caller else _OTHERS_HINT
