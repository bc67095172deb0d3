"""What is broken now: for a caller what concerns everybody and its own budget, for an admin everything."""

from msgspec import to_builtins

from router.contract.notices import Notices, visible_to
from router.edge.control.panel import Answer, Asked, Page, as_json


class NoticesPanel:
    """Lists the troubles that last."""

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self.pages = (Page("/tandem/notices", self._show),)

    async def _show(self, asked: Asked) -> Answer:
        found = visible_to(asked.caller.name, self._notices(), is_admin=asked.rights.is_admin)
        return as_json({"notices": to_builtins(found)})
