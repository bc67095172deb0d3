"""Reading the same config again."""

from dataclasses import replace

from router.cli.reading import Reading
from tests.conftest import SIMULATED


def test_a_reload_reads_the_file_of_the_start_and_adds_what_is_not_in_it(tmp_path):
    (tmp_path / "config.yaml").write_text(SIMULATED)
    reading = Reading(tmp_path / "config.yaml", None)

    added = reading._replace(adapt=lambda loaded: replace(loaded, fingerprint="added"))

    assert reading.load().ledger_path == tmp_path / "test.db"
    assert added.load().fingerprint == "added"
