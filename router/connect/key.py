"""The key that a client sends: a made-up one for a router that asks for none, or a person's own, by the name of a variable."""

from router.connect import KEY
from router.connect.recipe import Facts

_OWN_VARIABLE = "TANDEM_KEY"
"""Where a client must have a variable for the made-up key, too."""


def key_facts(variable: str = "", value: str = "") -> Facts:
    """What recipes can say of the key. Without a variable it is the made-up one.

    `key_env` is the variable's name and `local_key` the made-up key: one of the two is empty, and leaves its line out.
    `key_value` is the key itself, for clients that can refer to no variable and for the environment of a run.
    """
    return {
        "key_env": variable,
        "local_key": "" if variable else KEY,
        "key_name": variable or _OWN_VARIABLE,
        "shell_key": f"${variable}" if variable else KEY,
        "key_value": value if variable else KEY,
    }
