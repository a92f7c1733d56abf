"""What rules read out of what a user says: the thing itself, and since when."""

from datetime import UTC, datetime

import pytest

from holdfast.memory.extract.facts import facts_by_rules

SAID_AT = datetime(2026, 11, 16, 12, tzinfo=UTC)  # a Monday


@pytest.mark.parametrize(
    ("text", "predicate", "thing", "since"),
    [
        ("I live in Paris.", "lives_in", "Paris", SAID_AT),
        ("I moved to Lyon last week.", "lives_in", "Lyon", datetime(2026, 11, 9, tzinfo=UTC)),
        ("I moved to Lyon yesterday", "lives_in", "Lyon", datetime(2026, 11, 15, tzinfo=UTC)),
        ("I have moved to San Francisco two years ago.", "lives_in", "San Francisco", None),
        ("We moved to Lyon on 3 March 2024!", "lives_in", "Lyon", datetime(2024, 3, 3, tzinfo=UTC)),
        ("I moved to Lyon in 2019, and I like it", "lives_in", "Lyon", datetime(2019, 1, 1, tzinfo=UTC)),
        ("I moved to Lyon in March.", "lives_in", "Lyon", datetime(2026, 3, 1, tzinfo=UTC)),
        ("I moved to Lyon in December.", "lives_in", "Lyon", datetime(2025, 12, 1, tzinfo=UTC)),
        ("I moved to Lyon recently.", "lives_in", "Lyon", SAID_AT),
        ("I moved to Lyon a while ago.", "lives_in", "Lyon", SAID_AT),
        ("I work at Acme since 2021", "works_at", "Acme", SAID_AT),
        ("I work for Studio 54", "works_at", "Studio 54", SAID_AT),
        ("I like May 2024", "likes", "May 2024", SAID_AT),
        ("My birthday is on March 3.", "birthday", "March 3", SAID_AT),
    ],
)
def test_what_is_said_of_a_time_is_the_things_and_not_part_of_it(
    text: str, predicate: str, thing: str, since: datetime | None
) -> None:
    found = [fact for fact in facts_by_rules(text, SAID_AT) if fact.predicate == predicate]
    assert [fact.object for fact in found] == [thing]
    if since is None:
        assert found[0].valid_from is not None
        assert abs((SAID_AT - found[0].valid_from).days - 730) < 3
    else:
        assert found[0].valid_from == since


def test_a_time_alone_is_no_place() -> None:
    assert [fact.object for fact in facts_by_rules("I live in 2024.", SAID_AT)] == ["2024"]
