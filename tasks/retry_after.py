"""How long a provider asks us to leave it alone. Pure: `now` is a parameter."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after_s(value: str | None, now: datetime, *, default_s: float = 30.0, most_s: float = 3_600.0) -> float:
    """Return what a Retry-After header asks for, from one second up to most_s.

    Shape: value is a number of seconds or an HTTP date; default_s when it is missing or neither.
    Source: RFC 9110, section 10.2.3
    """
    value = (value or "").strip()
    seconds = float(value[:9]) if value.isascii() and value.isdigit() else until_s(value, now)
    return min(max(1.0, default_s if seconds is None else seconds), most_s)


def until_s(date: str, now: datetime) -> float | None:
    """Return how far an HTTP date is, None for what is none."""
    try:
        at = parsedate_to_datetime(date)
    except (ValueError, TypeError, IndexError, OverflowError):  # it is the provider's text
        return None
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds()
