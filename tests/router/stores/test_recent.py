"""The last decisions: how many, for how long, and what of them is written."""

import orjson

from router.contract.caller import LOCAL
from router.stores.recent import RecentDecisions
from tests.tools.kept import make_entry


def test_what_the_person_typed_is_remembered_and_not_written():
    recent = RecentDecisions()

    written = recent.add(make_entry(), {"tier": "fast", "person_text": "typed"})

    assert orjson.loads(written) == {"tier": "fast", "person_text": None}
    assert recent.find("req_1", LOCAL) == {"tier": "fast", "person_text": "typed"}


def test_where_texts_are_kept_what_the_person_typed_is_written():
    written = RecentDecisions().add(make_entry(prompt_text="{}"), {"person_text": "typed"})

    assert orjson.loads(written) == {"person_text": "typed"}


def test_the_oldest_is_forgotten_after_512_others_or_an_hour():
    by_count, by_age = RecentDecisions(), RecentDecisions()
    for number in range(513):
        by_count.add(make_entry(f"req_{number}"), {})
    by_age.add(make_entry("old", at=0.0), {})
    by_age.add(make_entry("new", at=3_601.0), {})

    assert (by_count.find("req_0", LOCAL), by_count.find("req_1", LOCAL)) == (None, {"person_text": None})
    assert (by_age.find("old", LOCAL), by_age.find("new", LOCAL)) == (None, {"person_text": None})
