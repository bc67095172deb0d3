"""Why `tandem serve` cannot serve, and what to do. `tandem check` uses the same words."""

from pathlib import Path

from router.cli.common import command_name
from router.cli.routers import is_tandem
from router.config.certificate import CertificateUnusable
from router.contract.stores import SharedUnusable, StoreUnusable
from router.edge.server import CannotListen
from router.stores.sqlite.damage import StoreDamaged
from router.stores.sqlite.lock import StoreInUse
from router.stores.sqlite.schemas import StoreNewer, StoreOlder

REFUSALS = (CannotListen, CertificateUnusable, StoreUnusable)
_ASK_SECONDS = 5.0


def explain(error: Exception, url: str = "") -> str:
    """`url` is where the router was to listen."""
    if isinstance(error, CannotListen):
        return _say_taken(str(error), url)
    if isinstance(error, StoreInUse):
        hint = "stop that router, or set another file in the config (ledger.path, store.path); --no-ledger keeps no record"
        return f"{error}\n  hint: {hint}"
    if isinstance(error, StoreDamaged):
        return f"{error}\n  hint: {error.hint}\n  {command_name()} serve --no-ledger serves without it"
    if isinstance(error, StoreNewer | StoreOlder):
        return f"{error}\n  {command_name()} serve --no-ledger serves without it"
    if isinstance(error, SharedUnusable | CertificateUnusable):
        return str(error)
    return f"{error}\n  hint: move that file away, or start with --no-ledger"


def _say_taken(problem: str, url: str) -> str:
    """Usually another Tandem is running there."""
    if url and is_tandem(url, _ASK_SECONDS):
        return (
            f"a Tandem router is already running at {url}\n"
            f"  hint: use that one, stop it first, or start another with {command_name()} serve --port 4001 --no-ledger"
        )
    return problem.replace("--port", f"{command_name()} serve --port")


def say_away(path: Path, cause: str) -> str:
    return f"{path} cannot be used ({cause}). It is tried again every few seconds; --no-ledger serves without a record"
