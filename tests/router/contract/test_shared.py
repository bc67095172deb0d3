"""How the connections of a router to the shared database are divided, and whose name its rows have."""

import pytest

from router.contract.secret import Secret
from router.contract.shared import PostgresTerms


@pytest.mark.parametrize("connections", [4, 5, 6, 20, 100])
def test_all_parts_together_open_no_more_connections_than_are_allowed(connections):
    terms = PostgresTerms(Secret("env:A"), connections=connections)
    listening = copying = 1

    # Each link keeps one of its connections for listening, which only jobs do.
    working = terms.for_jobs.connections - 1, terms.for_responses.connections - 1

    assert min(working) >= 1
    assert listening + copying + sum(working) == connections
