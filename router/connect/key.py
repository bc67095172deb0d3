"""The key that a client sends: a placeholder, or a person's own by the name of its variable."""

from router.connect import KEY
from router.connect.recipe import Facts

_OWN_VARIABLE = "TANDEM_KEY"
"""For clients that need a variable even for the placeholder."""
_KEY_OPTION = " --key-env "


def key_facts(variable: str = "", value: str = "") -> Facts:
    """The key's facts for recipes; without a variable, those of the placeholder.

    One of `key_env`, the variable, and `local_key`, the placeholder, is empty, which omits its line. `key_value` is the key
    itself, for runs and for clients that cannot refer to variables; `own_key` is empty instead of the placeholder.
    """
    return {
        "key_env": variable,
        "local_key": "" if variable else KEY,
        "key_name": variable or _OWN_VARIABLE,
        "shell_key": f"${variable}" if variable else KEY,
        "key_value": value if variable else KEY,
        "own_key": value if variable else "",
    }


def with_key(facts: Facts, variable: str, value: str) -> Facts:
    """Facts for a client that sends a person's own key. Its status line shows what is left of their budget."""
    plain = facts["statusline"].partition(_KEY_OPTION)[0]
    return {**facts, **key_facts(variable, value), "statusline": f"{plain}{_KEY_OPTION}{variable}"}
