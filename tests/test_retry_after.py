"""What a Retry-After header asks for."""

from datetime import UTC, datetime

import pytest

from tasks.retry_after import retry_after_s

NOW = datetime(2026, 1, 2, 3, 4, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7),
        (" 90 ", 90),
        ("0", 1),
        ("86400", 3600),
        ("9" * 400, 3600),
        ("Fri, 02 Jan 2026 03:04:20 GMT", 20),
        ("Fri, 02 Jan 2026 03:04:20 -0000", 20),
        ("Fri, 02 Jan 2026 05:04:20 +0200", 20),
        ("Fri, 02 Jan 2026 03:00:00 GMT", 1),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 3600),
        (None, 30),
        ("", 30),
        ("soon", 30),
        ("-5", 30),
        ("1.5", 30),
        ("٣", 30),
        ("Fri, 99 Foo 2026 99:99:99 GMT", 30),
        ("Fri, 31 Dec 99999 23:59:59 GMT", 30),
    ],
)
def test_number_and_date_are_understood_and_bounded(value, seconds):
    assert retry_after_s(value, NOW) == seconds
