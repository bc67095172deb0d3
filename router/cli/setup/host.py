"""Faults of the address in a config. Only those who listen know of them, so the config's own room cannot."""

from router.config.faults import Fault
from router.config.load import ConfigError
from router.edge.server import CannotListen, check_host


def all_faults(error: ConfigError) -> list[Fault]:
    """The faults of a config, and that of its address."""
    server = error.content.get("server")
    host = server.get("host") if isinstance(server, dict) else None
    fault = find_host_fault(host) if isinstance(host, str) else None
    return [*error.faults, *([fault] if fault else [])]


def find_host_fault(host: str) -> Fault | None:
    """Why the router would not listen there."""
    try:
        check_host(host)
    except CannotListen as refusal:
        problem, _, hint = str(refusal).partition("\n  hint: ")
        return Fault("server.host", problem.removeprefix("server.host: "), hint)
    return None
