"""Places of the newest turns' words, in memory until a mark, a reload or the end of the router has them written.

Few turns are ever marked, so a row for each would be written to be deleted. A crash loses those of unmarked turns.
"""

import sqlite3
from collections import deque
from itertools import chain

from router.contract.features import HASHING, pack_places
from router.stores.sqlite.rows import transaction

_KEPT_TURNS = 100
"""Of each caller."""
_MAX_CALLERS = 100
PLACES_SECONDS = 86_400.0
_INSERT = """
    INSERT INTO places (request_id, at, caller, places)
    SELECT ?1, ?2, ?3, ?4 FROM entries WHERE id = ?1
"""
"""Not for a turn whose row is deleted, or not written yet."""
_TEACH = """
    UPDATE misjudged SET hashing = ?, places = (SELECT places.places FROM places WHERE places.request_id = misjudged.request_id)
    WHERE places IS NULL AND should_be != '' AND request_id IN (SELECT request_id FROM places)
"""
_FORGET_OLD = "DELETE FROM places WHERE at < ?"
_FORGET_MANY = f"""
    DELETE FROM places WHERE sequence IN (
        SELECT sequence FROM (
            SELECT sequence, row_number() OVER (PARTITION BY caller ORDER BY sequence DESC) AS newer FROM places
        ) WHERE newer > {_KEPT_TURNS}
    )
"""  # noqa: S608  a number
_UNTAUGHT = "SELECT request_id FROM misjudged WHERE places IS NULL AND should_be != ''"
_Places = tuple[str, float, str, tuple[int, ...]]


class HeldPlaces:
    """Added to by the loop, written by the writer's thread."""

    def __init__(self) -> None:
        self._of: dict[str, deque[_Places]] = {}

    def add(self, request_id: str, at: float, caller: str, places: tuple[int, ...]) -> None:
        held = self._of.get(caller)
        if held is None:
            while len(self._of) >= _MAX_CALLERS:
                del self._of[next(iter(self._of))]
            held = self._of[caller] = deque(maxlen=_KEPT_TURNS)
        held.append((request_id, at, caller, places))

    def write_for_marks(self, database: sqlite3.Connection) -> bool:
        """Write all once one of these turns is marked, perhaps by another program."""
        if self._of:
            marked = {name for (name,) in database.execute(_UNTAUGHT)}
            if any(row[0] in marked for row in chain.from_iterable(self._look())):
                self.write(database)
        return False

    def write(self, database: sqlite3.Connection) -> None:
        """With their marks, and without what is too old or too much. Turns whose rows are not there yet stay here."""
        held = self._look()
        newest = [rows[-1][1] for rows in held if rows]
        if not newest:
            return
        with transaction(database):
            rows = ((*row, pack_places(places)) for *row, places in chain.from_iterable(held))
            written = {row[0] for row in rows if database.execute(_INSERT, row).rowcount > 0}
            database.execute(_TEACH, (HASHING,))
            database.execute(_FORGET_OLD, (max(newest) - PLACES_SECONDS,))
            database.execute(_FORGET_MANY)
        for turns in list(self._of.values()):
            last = max((place for place, row in enumerate(list(turns), 1) if row[0] in written), default=0)
            for _ in range(last):  # rows are written in order: one without a row before others is deleted
                turns.popleft()

    def _look(self) -> list[list[_Places]]:
        """Copies: the loop may add meanwhile."""
        return [list(rows) for rows in list(self._of.values())]
