"""How much of a context window is kept free for the answer. The decision, the model lists and the config's check ask here."""

RESERVE_TOKENS = 8_000
"""Never more than this, unless the config says otherwise: clients that allow themselves 64,000 seldom write a tenth of it."""


def reserve_tokens(window_tokens: int, own_limit: int | None = None, most: int = RESERVE_TOKENS) -> int:
    """What an answer needs: the request's own limit, else a quarter of the window; never more than `most`.

    A limit is the most that an answer may have, and not what it will have: half a window is enough for it. Otherwise a client
    that always sends 4,096 could not use a window of that size at all.
    """
    needed = window_tokens // 4 if own_limit is None else min(own_limit, window_tokens // 2)
    return min(needed, most)
