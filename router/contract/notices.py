"""What is broken now, as people are told of it: on the screen, on the page, at `/tandem/notices` and by the webhook."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from router.contract.words import Word


class Trouble(Word):
    """A kind of trouble that lasts until it is over."""

    TARGET_OUT = "target_out"
    """A target is left alone after failures, or asked to be left alone for long."""
    KEY_REFUSED = "key_refused"
    """A host refuses the key of a target."""
    BUDGET_NEAR = "budget_near"
    """A caller has nearly spent its budget."""
    BUDGET_SPENT = "budget_spent"
    LEDGER_LOSING = "ledger_losing"
    """The ledger loses rows, or cannot be written to."""
    POLICY_OFF = "policy_off"
    """A policy of the operator's own failed, and is not asked any more."""
    STORE_AWAY = "store_away"
    """A server that routers share cannot be used."""

    @property
    def is_of_target(self) -> bool:
        """Whether its subject is a target: that concerns every caller."""
        return self in (Trouble.TARGET_OUT, Trouble.KEY_REFUSED)

    @property
    def is_of_caller(self) -> bool:
        """Whether its subject is a caller, and nobody else's business but an admin's."""
        return self in (Trouble.BUDGET_NEAR, Trouble.BUDGET_SPENT)


class Notice(Struct, frozen=True):
    """One trouble that lasts."""

    kind: Trouble
    subject: str
    """Whose trouble it is: the name of a target, of a caller or of a shared store; empty for the router's own."""
    since: float
    """In seconds since 1970."""
    text: str
    """A sentence without a full stop, such as "fast-1: its host refuses the API key"."""
    hint: str
    """What to do, such as "tandem check --live"."""

    @property
    def place(self) -> tuple[bool, bool, str]:
        """What has the trouble. In each place there is one at a time: a budget that was nearly spent is spent, say."""
        return self.kind.is_of_target, self.kind.is_of_caller, self.subject


Notices = Callable[[], Sequence[Notice]]
"""Asks what is broken now."""


def visible_to(caller: str, notices: Sequence[Notice], *, is_admin: bool) -> list[Notice]:
    """Those that a caller may see: the troubles of targets and its own, and an admin all."""
    return [
        notice
        for notice in notices
        if is_admin or notice.kind.is_of_target or (notice.kind.is_of_caller and notice.subject == caller)
    ]
