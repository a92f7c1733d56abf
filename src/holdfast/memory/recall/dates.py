"""Times that a question names, as spans: "on 3 May 2023", "last week", "in the summer of 2021".

English only. What is relative ("yesterday") counts from ``now``. A date without a year is that day of any year. Days
are UTC.
"""

import re
from calendar import monthrange
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Final

from holdfast.core.clock import to_us

_MONTHS: Final = {
    name: number
    for number, names in enumerate(
        "january jan|february feb|march mar|april apr|may|june jun|july jul|august aug|september sept sep"
        "|october oct|november nov|december dec".split("|"),
        start=1,
    )
    for name in names.split()
}
_WEEKDAYS: Final = {
    name: number
    for number, name in enumerate("monday tuesday wednesday thursday friday saturday sunday".split())
}
_SEASONS: Final = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_NUMBERS: Final = {
    name: number
    for number, names in enumerate(
        "a an one|two couple|three few|four|five|six|seven|eight|nine|ten|eleven|twelve".split("|"), start=1
    )
    for name in names.split()
}
_UNITS: Final = {"day": 1, "week": 7, "month": 30, "year": 365}

_MONTH = rf"(?P<month>{'|'.join(_MONTHS)})\b\.?"
_DAY = r"(?P<day>3[01]|[12]\d|0?[1-9])(?:st|nd|rd|th)?\b"
_YEAR = r"(?P<year>(?:19|20)\d\d)\b"
_PART = r"(?:(?P<part>early|beginning|start|mid|middle|late|end)(?:[ -]of)?[ -](?:the )?)?"
_COUNT = rf"(?P<count>\d{{1,3}}|{'|'.join(_NUMBERS)})(?: of)?"
_UNIT = r"(?P<unit>day|week|month|year)s?"

_DIGIT: Final = "0"  # stands for any, among the words of a text
_MONTH_WORDS, _WEEKDAY_WORDS, _SEASON_WORDS = frozenset(_MONTHS), frozenset(_WEEKDAYS), frozenset(_SEASONS)
_UNIT_WORDS: Final = frozenset((*_UNITS, *[f"{unit}s" for unit in _UNITS]))

# In this order: a longer form comes before the ones that are parts of it, and what was read is not read again. Each
# with words of which a text must have one, or it is not looked for: most questions have none of any.
_FORMS: Final = tuple(
    (name, frozenset(words), re.compile(rf"\b(?:{pattern})", re.IGNORECASE))
    for name, words, pattern in (
        (
            "date",
            _DIGIT,
            r"(?P<year>(?:19|20)\d\d)-(?P<month>0[1-9]|1[0-2])-(?P<day>0[1-9]|[12]\d|3[01])(?!\d)",
        ),
        ("date", _MONTH_WORDS, rf"{_DAY} (?:of )?{_MONTH}(?:,? {_YEAR})?"),
        ("date", _MONTH_WORDS, rf"{_MONTH} (?:the )?{_DAY}(?:,? {_YEAR})?"),
        ("month", _MONTH_WORDS, rf"{_PART}{_MONTH}(?: of)?,? {_YEAR}"),
        ("month", _DIGIT, r"(?P<year>(?:19|20)\d\d)-(?P<month>0[1-9]|1[0-2])(?![\d-])"),
        ("season", _SEASON_WORDS, rf"(?P<season>{'|'.join(_SEASONS)})(?: of)?,? {_YEAR}"),
        ("year", _DIGIT, rf"(?:in|of|during|since|for|year) {_YEAR}"),
        # Without a number, "may" and "march" are months only behind one of these words.
        ("month", _MONTH_WORDS, rf"(?:in|of|during|since|until|by|this|last|next) {_PART}{_MONTH}"),
        ("ago", _UNIT_WORDS, rf"{_COUNT} {_UNIT} (?:ago|back|earlier)\b"),
        (
            "past",
            _UNIT_WORDS,
            rf"(?:in|over|during|within|for)(?: the)? (?:last|past|previous) {_COUNT} {_UNIT}\b",
        ),
        ("before", ("yesterday",), r"(?:the )?day before yesterday\b"),
        (
            "day",
            ("yesterday", "today", "tonight", "morning", "night", "evening"),
            r"(?P<word>yesterday|today|tonight|this morning|last night|this evening)\b",
        ),
        ("weekend", ("weekend",), r"(?P<which>last|this|past|previous) weekend\b"),
        (
            "weekday",
            _WEEKDAY_WORDS,
            rf"(?:on|last|this|past|previous) (?P<weekday>{'|'.join(_WEEKDAYS)})\b",
        ),
        ("unit", _UNIT_WORDS, rf"(?P<which>last|this|past|previous) {_UNIT}\b"),
    )
)
_TIME_WORDS: Final = frozenset(word for _, words, _ in _FORMS for word in words)
_WORD: Final = re.compile(r"[a-z]+")
_PREPOSITION: Final = re.compile(r"\s+(?:in|on|at|since|around|about|from)\s+$", re.IGNORECASE)
_MAX_DAY_WORDS: Final = 10
_MAX_MONTH_WORDS: Final = 4


@dataclass(frozen=True, slots=True)
class Span:
    """From ``start_us`` up to, not including, ``end_us``; if it is ``yearly``, of other years too."""

    start_us: int
    end_us: int
    yearly: bool = False


_DAY_US: Final = 86_400_000_000
_REACH_US: Final = 3 * _DAY_US
_YEAR_US: Final = 31_556_952_000_000
_YEARS_BACK: Final = 4


def nearness(spans: Sequence[Span], moments: Sequence[int | None]) -> list[float]:
    """How near each moment is to the nearest span: 1.0 inside, falling to 0.0 as far away as that is long, three days
    at least. People speak of a thing some days before or after it happens.
    """
    best = [0.0] * len(moments)
    for span in spans:
        start, end = span.start_us, span.end_us
        reach = max(end - start, _REACH_US)
        first, last = start - reach, end + reach
        for place, at in enumerate(moments):
            if at is None or not (first < at < last or span.yearly):
                continue
            moment = at + round((start - at) / _YEAR_US) * _YEAR_US if span.yearly else at
            away = max(start - moment, moment - end, 0)
            if away < reach:
                best[place] = max(best[place], 1.0 - away / reach)
    return best


def spans(text: str, now: datetime) -> list[Span]:
    """The times that a text names, in the order of the text; those that no calendar has are left out."""
    words = _TIME_WORDS.intersection(_WORD.findall(text.lower()))
    if any(map(str.isdigit, text)):
        words |= {_DIGIT}
    if not words:
        return []
    found: list[tuple[int, Span]] = []
    today = now.astimezone(UTC).date() if now.tzinfo else now.date()
    rest = text[:2000]
    for form, needed, pattern in _FORMS:
        for match in () if needed.isdisjoint(words) else pattern.finditer(rest):
            parts = {name: part.lower() for name, part in match.groupdict().items() if part}
            bounds = _bounds(form, parts, today)
            if bounds is not None:
                yearly = form in ("date", "month") and "year" not in parts
                found.append((match.start(), Span(_midnight(bounds[0]), _midnight(bounds[1]), yearly)))
            rest = rest[: match.start()] + "#" * len(match[0]) + rest[match.end() :]
    return [span for _, span in sorted(found, key=lambda pair: pair[0])]


def without_time(text: str) -> str:
    """A text without the time that it ends with ("Lyon last week"), unless it is nothing else."""
    starts = [m.start() for *_, form in _FORMS for m in form.finditer(text) if m.end() == len(text)]
    return _PREPOSITION.sub("", text[: min(starts, default=len(text))]).rstrip() or text


def time_words(at_us: int) -> str:
    """Words for the day and the month of a moment.

    A memory that has them in its value can be found by a date alone: :func:`span_words` are looked up as words.
    """
    moment = datetime.fromtimestamp(at_us // 1_000_000, UTC)
    return f"{moment:d%Y%m%d m%Y%m}"


@lru_cache(maxsize=256)
def span_words(span: Span) -> list[str]:
    """The words of :func:`time_words` that moments in the span have; none if it is a long one.

    Of a yearly span, those of the last years.
    """
    if span.yearly:
        first = datetime.fromtimestamp(span.start_us // 1_000_000, UTC)
        long = (span.end_us - span.start_us) // _DAY_US > _MAX_DAY_WORDS
        form = "m{}%m" if long else "d{}%m%d"
        return [first.strftime(form.format(first.year - back)) for back in range(_YEARS_BACK + 1)]
    first = datetime.fromtimestamp(span.start_us // 1_000_000, UTC)
    days = (span.end_us - span.start_us) // _DAY_US
    if days <= _MAX_DAY_WORDS:
        return [f"{first + timedelta(days=number):d%Y%m%d}" for number in range(days)]
    months = (days + 14) // 30
    if months > _MAX_MONTH_WORDS:
        return []
    last = datetime.fromtimestamp(span.end_us // 1_000_000 - 1, UTC)
    return list(dict.fromkeys([f"{first:m%Y%m}", f"{first + (last - first) / 2:m%Y%m}", f"{last:m%Y%m}"]))


def _bounds(form: str, parts: dict[str, str], today: date) -> tuple[date, date] | None:
    try:
        if form in ("date", "month", "season", "year"):
            return _calendar(form, parts, today)
        return _relative(form, parts, today)
    except (ValueError, OverflowError):  # 31 February, the year 0
        return None


def _calendar(form: str, parts: dict[str, str], today: date) -> tuple[date, date]:
    year = int(parts["year"]) if "year" in parts else None
    if form == "year":
        return date(year or today.year, 1, 1), date((year or today.year) + 1, 1, 1)
    if form == "season":
        first = _SEASONS[parts["season"]]
        # A winter is named for the year that it begins in, or for the one that it ends in.
        start = date(year or today.year, 1 if first == 12 else first, 1)
        return start, _add_months(start, 12 if first == 12 else 3)
    named = parts["month"].rstrip(".")
    month = int(named) if named.isdigit() else _MONTHS[named]
    if form == "date":
        day = int(parts["day"])
        if year is None:
            year = today.year if (month, day) <= (today.month, today.day) else today.year - 1
        start = date(year, month, day)
        return start, start + timedelta(days=1)
    if year is None:
        year = today.year if month <= today.month else today.year - 1
    start, end = date(year, month, 1), _add_months(date(year, month, 1), 1)
    part = parts.get("part")
    if part in ("early", "beginning", "start"):
        return start, start + timedelta(days=10)
    if part in ("mid", "middle"):
        return start + timedelta(days=10), start + timedelta(days=20)
    return (start + timedelta(days=20), end) if part in ("late", "end") else (start, end)


def _relative(form: str, parts: dict[str, str], today: date) -> tuple[date, date]:
    day = timedelta(days=1)
    if form == "before":
        return today - 2 * day, today - day
    if form == "day":
        start = today - day if parts["word"] in ("yesterday", "last night") else today
        return start, start + day
    if form == "weekend":
        saturday = today - timedelta(days=(today.weekday() - 5) % 7)
        return saturday, saturday + 2 * day
    if form == "weekday":
        back = (today.weekday() - _WEEKDAYS[parts["weekday"]]) % 7 or 7
        return today - back * day, today - (back - 1) * day
    if form == "unit":
        return _unit(parts["unit"], parts["which"], today)
    count = int(parts["count"]) if parts["count"].isdigit() else _NUMBERS[parts["count"]]
    length = _UNITS[parts["unit"]]
    if form == "past":
        return today - count * length * day, today + day
    # "Three weeks ago" is not meant to the day: half a unit on both sides.
    middle, margin = today - count * length * day, length // 2 * day
    return middle - margin, middle + margin + day


def _unit(unit: str, which: str, today: date) -> tuple[date, date]:
    back = 0 if which == "this" else 1
    if unit == "day":
        return today - timedelta(days=back), today - timedelta(days=back - 1)
    if unit == "week":
        start = today - timedelta(days=today.weekday() + 7 * back)
        return start, start + timedelta(days=7)
    if unit == "month":
        start = _add_months(today.replace(day=1), -back)
        return start, _add_months(start, 1)
    return date(today.year - back, 1, 1), date(today.year - back + 1, 1, 1)


def _add_months(day: date, months: int) -> date:
    index = day.year * 12 + day.month - 1 + months
    year, month = divmod(index, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def _midnight(day: date) -> int:
    return to_us(datetime(day.year, day.month, day.day, tzinfo=UTC))
