"""What rules read out of what a user says."""

from datetime import UTC, datetime

import pytest

from holdfast.memory.extract.facts import facts_by_rules

SAID_AT = datetime(2026, 11, 16, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "predicate", "thing"),
    [
        ("I live in Paris.", "lives_in", "Paris"),
        ("I moved to Lyon last week.", "lives_in", "Lyon"),
        ("I moved to Lyon yesterday", "lives_in", "Lyon"),
        ("I have moved to San Francisco two years ago.", "lives_in", "San Francisco"),
        ("We moved to Lyon on 3 March 2024!", "lives_in", "Lyon"),
        ("I moved to Lyon in 2019, and I like it", "lives_in", "Lyon"),
        ("I moved to Lyon in March.", "lives_in", "Lyon"),
        ("I moved to Lyon recently.", "lives_in", "Lyon"),
        ("I moved to Lyon a while ago.", "lives_in", "Lyon"),
        ("I work at Acme since 2021", "works_at", "Acme"),
        ("I work for Studio 54", "works_at", "Studio 54"),
        ("I like May 2024", "likes", "May 2024"),
        ("My birthday is on March 3.", "birthday", "March 3"),
        ("I live in 2024.", "lives_in", "2024"),
        ("I work on March 3.", "works_on", "March 3"),
    ],
)
def test_the_time_that_is_said_with_a_thing_is_no_part_of_it(text: str, predicate: str, thing: str) -> None:
    found = [fact for fact in facts_by_rules(text, SAID_AT) if fact.predicate == predicate]
    assert [(fact.object, fact.valid_from) for fact in found] == [(thing, SAID_AT)]
