"""The row of a request: its fields are the columns of every store."""

import re
from contextlib import closing
from sqlite3 import connect

from router.contract.entry import COLUMNS, column_types
from router.stores.postgres.schema import read_migrations
from router.stores.sqlite.migrate import SQL
from router.stores.sqlite.schemas import LEDGER

WITHOUT_SCRIPT = ("billing", "list_usd", "combined")
"""Columns that files and databases get by themselves."""


def test_a_field_says_the_type_of_its_column_and_whether_it_may_be_null():
    kinds = column_types()

    assert tuple(kinds) == COLUMNS
    assert (kinds["id"], kinds["score"], kinds["streaming"]) == ((str, False), (float, True), (bool, False))
    assert (kinds["status"], kinds["tokens_estimated"]) == ((int, False), (bool, True))


def test_the_ledgers_scripts_make_columns_of_these_types():
    with closing(connect(":memory:")) as database:
        for script in LEDGER.scripts:
            database.executescript(script)
        made = {name: (kind, not needed) for _, name, kind, needed, *_ in database.execute("PRAGMA table_info(entries)")}

    kinds = {name: (SQL[kind], null) for name, (kind, null) in column_types().items()}
    assert {name: made[name] for name in COLUMNS if name not in WITHOUT_SCRIPT} == {
        name: kind for name, kind in kinds.items() if name not in WITHOUT_SCRIPT
    }
    assert all(is_optional for name, (_, is_optional) in kinds.items() if name in WITHOUT_SCRIPT)


def test_the_scripts_of_postgres_make_columns_of_these_types():
    table = re.search(r"CREATE TABLE tandem\.entries \((.*?)\n\);", "".join(read_migrations().values()), re.DOTALL).group(1)
    made = {
        name: (kind, "NOT NULL" not in line)
        for line in table.splitlines()
        for name, kind in re.findall(r"^    (\w+) +(\w+)", line)
    }
    words = {str: "TEXT", float: "DOUBLE", int: "BIGINT", bool: "BIGINT"}

    assert {name: made[name] for name in COLUMNS if name not in WITHOUT_SCRIPT} == {
        name: (words[kind], null) for name, (kind, null) in column_types().items() if name not in WITHOUT_SCRIPT
    }
