"""What is broken now, as people are told of it."""

from msgspec import Struct

from router.contract.words import Word


class Trouble(Word):
    """A kind of trouble that lasts until it is over."""

    TARGET_OUT = "target_out"
    """A target is left alone after failures."""
    KEY_REFUSED = "key_refused"
    """A host refuses the key of a target."""
    BUDGET_NEAR = "budget_near"
    """A caller has nearly spent its budget."""
    BUDGET_SPENT = "budget_spent"
    LEDGER_LOSING = "ledger_losing"
    """The ledger loses rows."""


class Notice(Struct, frozen=True):
    """One trouble that lasts."""

    kind: Trouble
    subject: str
    """Whose trouble it is: the name of a target or of a caller; empty for the router's own."""
    since: float
    """In seconds since 1970."""
    text: str
    """A sentence without a full stop, such as "fast-1 has refused its key since 14:02"."""
    hint: str
    """What to do, such as "tandem doctor"."""
