"""Which times a question names."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from holdfast.core.clock import from_us, to_us
from holdfast.memory.recall.dates import Span, nearness, span_words, spans, time_words
from holdfast.memory.recall.question import MAX_TERMS, parse
from tests.memory.recall.support import NOW

# What a question says on Wednesday, 20 May 2026, and the first and the last day of it.
TABLE = [
    ("on 2025-03-09", "2025-03-09", "2025-03-09"),
    ("on 3 May 2023", "2023-05-03", "2023-05-03"),
    ("the 3rd of May, 2023", "2023-05-03", "2023-05-03"),
    ("May 3, 2023", "2023-05-03", "2023-05-03"),
    ("Sept. 1st 2024", "2024-09-01", "2024-09-01"),
    ("on 29 February 2024", "2024-02-29", "2024-02-29"),
    ("in 2023-11", "2023-11-01", "2023-11-30"),
    ("in February 2024", "2024-02-01", "2024-02-29"),
    ("in early July 2023", "2023-07-01", "2023-07-10"),
    ("mid-July 2023", "2023-07-11", "2023-07-20"),
    ("at the end of July 2023", "2023-07-21", "2023-07-31"),
    ("in the summer of 2021", "2021-06-01", "2021-08-31"),
    ("fall 2021", "2021-09-01", "2021-11-30"),
    ("during 2022", "2022-01-01", "2022-12-31"),
    ("today", "2026-05-20", "2026-05-20"),
    ("Yesterday", "2026-05-19", "2026-05-19"),
    ("last night", "2026-05-19", "2026-05-19"),
    ("the day before yesterday", "2026-05-18", "2026-05-18"),
    ("on Monday", "2026-05-18", "2026-05-18"),
    ("last Wednesday", "2026-05-13", "2026-05-13"),
    ("last weekend", "2026-05-16", "2026-05-17"),
    ("this week", "2026-05-18", "2026-05-24"),
    ("last week", "2026-05-11", "2026-05-17"),
    ("this month", "2026-05-01", "2026-05-31"),
    ("last month", "2026-04-01", "2026-04-30"),
    ("last year", "2025-01-01", "2025-12-31"),
    ("in the last three days", "2026-05-17", "2026-05-20"),
    ("over the past 2 weeks", "2026-05-06", "2026-05-20"),
    ("5 days ago", "2026-05-15", "2026-05-15"),
    ("three weeks ago", "2026-04-26", "2026-05-02"),
    ("a couple of days ago", "2026-05-18", "2026-05-18"),
]


def _days(span: Span) -> tuple[str, str]:
    return from_us(span.start_us).date().isoformat(), (
        from_us(span.end_us) - timedelta(days=1)
    ).date().isoformat()


@pytest.mark.parametrize(("text", "first", "last"), TABLE, ids=[text for text, _, _ in TABLE])
def test_a_time_is_read_as_its_days(text: str, first: str, last: str) -> None:
    (span,) = spans(f"What did Alice do {text}?", NOW)
    assert _days(span) == (first, last)
    assert not span.yearly


@pytest.mark.parametrize("text", ["on 3 May", "May 3rd", "in March", "since April"])
def test_a_date_without_a_year_is_that_of_any_year(text: str) -> None:
    (span,) = spans(f"What was {text}?", NOW)
    middle = (span.start_us + span.end_us) // 2
    year_us = to_us(datetime(2027, 1, 1, tzinfo=UTC)) - to_us(datetime(2026, 1, 1, tzinfo=UTC))
    assert span.yearly
    then, years_ago, never = nearness([span], [middle, middle - 3 * year_us, middle - year_us // 2])
    assert then == 1.0
    assert years_ago > 0.9  # years are as long as the mean one
    assert never == 0.0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "You may march in, the second floor has 3 rooms",
        "on 31 February 2024",
        "in room 2023b, 20231 times",
        "999 years ago since the year dot",
        "I sat back, she was decent, they separated",
        "0 May, 32 May",
    ],
)
def test_what_is_no_time_is_not_read_as_one(text: str) -> None:
    read = [span for span in spans(text, NOW) if from_us(span.end_us).year > 1100]
    assert read == []


def test_times_come_in_the_order_of_the_text_and_none_twice() -> None:
    read = spans("Between last week and 3 May 2023, or in 2021?", NOW)
    assert [_days(span)[0] for span in read] == ["2026-05-11", "2023-05-03", "2021-01-01"]


def test_relative_time_counts_from_the_day_in_utc() -> None:
    evening = datetime(2026, 5, 20, 22, tzinfo=timezone(timedelta(hours=-5)))  # already the 21st in UTC
    assert _days(spans("yesterday", evening)[0]) == ("2026-05-20", "2026-05-20")


def test_nearness_falls_with_the_distance() -> None:
    (span,) = spans("on 10 May 2026", NOW)
    moments = [to_us(datetime(2026, 5, 10 + away, 12, tzinfo=UTC)) for away in range(5)]
    near = nearness([span], moments)
    assert nearness([span], [*moments, None]) == [*near, 0.0]
    assert nearness([*spans("in 1999", NOW), span], moments) == near, "the nearest span counts"
    assert near[0] == 1.0
    assert near == sorted(near, reverse=True)
    assert 0 < near[2] < near[1] < 1
    assert near[4] == 0.0


@pytest.mark.parametrize("text", [text for text, _, _ in TABLE])
def test_a_short_span_is_looked_up_by_the_words_of_each_of_its_days(text: str) -> None:
    (span,) = spans(text, NOW) or spans(f"x {text}", NOW)
    asked, first, last = set(span_words(span)), from_us(span.start_us), from_us(span.end_us)
    days = (last - first).days
    for number in range(days):
        having = set(time_words(to_us(first + timedelta(days=number, hours=7))).split())
        assert (having & asked) or (days > 100 and not asked)


def test_the_words_of_a_moment_are_its_day_and_its_month() -> None:
    moment = datetime(2026, 5, 3, 23, 59, tzinfo=UTC)
    assert time_words(to_us(moment)) == "d20260503 m202605"
    assert date(1969, 12, 31).strftime("d%Y%m%d") in time_words(-1)


def test_a_yearly_span_is_looked_up_in_the_last_years() -> None:
    assert span_words(spans("on 3 May", NOW)[0])[:2] == ["d20260503", "d20250503"]
    assert span_words(spans("in June", NOW)[0])[0] == "m202506"


@pytest.mark.parametrize(
    ("text", "recent", "roles"),
    [
        ("Where do I live currently?", True, {"user", "human"}),
        ("What did you advise?", False, {"assistant", "ai"}),
        ("What did you tell me?", False, set()),
        ("Where is the recent-ish file?", False, set()),
    ],
)
def test_a_question_says_whether_it_asks_for_the_latest_and_who_speaks(
    text: str, recent: bool, roles: set[str]
) -> None:
    question = parse(text, NOW)
    assert (question.recent, set(question.roles)) == (recent, roles)


def test_a_pasted_log_is_cut() -> None:
    assert len(parse(" ".join(f"w{number}" for number in range(5000)), NOW).terms) == MAX_TERMS
