"""File handles for as many requests as the config allows: each needs one for its caller and one for its target."""

import contextlib
import resource

_OWN_HANDLES = 200


def allow_handles(max_in_flight: int, max_sockets: int) -> int:
    """Raise this process's limit as far as needed and allowed. Returns the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * max_in_flight + max_sockets + _OWN_HANDLES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return soft
    wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    with contextlib.suppress(OSError, ValueError):  # some systems allow less than they say
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
