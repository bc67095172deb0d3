"""Taking the config again, as `tandem reload` asks for it."""

from collections.abc import Awaitable, Callable

from router.config.faults import ConfigError
from router.contract.errors import NotFound
from router.contract.request import JsonObject
from router.edge.control.panel import Answer, Asked, Page, as_json
from router.edge.routes import check_body_headers

RELOAD = "/tandem/reload"
_FAULTY = 422


class Reload:
    """Reloads the config, for an admin. Nobody else's page may ask: admission looks at Origin, and this at the content type."""

    def __init__(self, reload: Callable[[], Awaitable[JsonObject]] | None) -> None:
        self._reload = reload
        self.pages = (Page(RELOAD, self._take, ("POST",), needs_admin=True),)

    async def _take(self, asked: Asked) -> Answer:
        check_body_headers(asked.headers, 0)
        if self._reload is None:
            raise NotFound("this router was not started from a config file, so there is nothing to read again")
        try:
            return as_json(await self._reload())
        except ConfigError as error:
            return as_json(_describe(error, asked.request_id), _FAULTY)


def _describe(error: ConfigError, request_id: str) -> JsonObject:
    """Every fault, for a program and as text. Nothing was changed."""
    return {
        "error": {
            "message": f"the config has faults, so nothing was changed. {error}",
            "type": "invalid_request_error",
            "param": None,
            "code": "config_faulty",
            "request_id": request_id,
            "faults": [{"path": fault.place, "problem": fault.problem, "hint": fault.hint} for fault in error.faults],
        }
    }
