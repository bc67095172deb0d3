"""Logging in to the page and out of it, where callers need a key."""

import time

from router.contract.errors import BadRequest, Forbidden
from router.edge.admission import Admission
from router.edge.control.bodies import read_small_body
from router.edge.control.panel import Answer, Asked, Page, as_json
from router.edge.logins import LOGIN_SECONDS, PAGE_HEADER, write_cookie
from router.edge.routes import LOGIN, LOGOUT


class Login:
    """Takes a key once, and sets a cookie by which the browser is known on `/tandem/*`."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self.pages = (Page(LOGIN, self._begin, ("POST",)), Page(LOGOUT, self._end, ("POST",)))

    async def _begin(self, asked: Asked) -> Answer:
        _check_sender(asked)
        given = (await read_small_body(asked, self._admission.limits)).get("key")
        if not isinstance(given, str):
            raise BadRequest("key: must be a string, as in tdm_…", param="key")
        key = self._admission.find_key(given.strip(), asked.peer)
        logins = self._admission.logins
        logins.end(asked.headers.get("cookie", ""))
        cookie = _write(asked, logins.begin(key, time.time()))
        return as_json({"caller": key.caller.name, "expires_in": LOGIN_SECONDS}, headers=cookie)

    async def _end(self, asked: Asked) -> Answer:
        """Log out. It works for a login that has ended as well: what matters is that the browser forgets it."""
        _check_sender(asked)
        self._admission.logins.end(asked.headers.get("cookie", ""))
        return as_json({"logged_out": True}, headers=_write(asked, ""))


def _check_sender(asked: Asked) -> None:
    """Refuse what a form of another site could send. A browser that is old enough names no origin."""
    if asked.headers.get(PAGE_HEADER) != "1":
        raise Forbidden(f"logging in and out needs the header {PAGE_HEADER}: 1")


def _write(asked: Asked, value: str) -> dict[str, str]:
    # Behind a proxy that ends TLS the connection here is plain, and the browser's own Origin says what it uses.
    is_secure = asked.is_encrypted or asked.headers.get("origin", "").startswith("https://")
    return {"set-cookie": write_cookie(value, is_secure=is_secure), "cache-control": "no-store"}
