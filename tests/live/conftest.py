"""Fixtures of tests that start real processes."""

import pytest

from tests.kit import Kit
from tests.smtp import SmtpSink


@pytest.fixture
def kit(transactional_db, tmp_path):
    """Give a Kit on an empty database and an empty broker; end its processes before the tables are emptied."""
    made = Kit(tmp_path)
    yield made
    made.end_all()


@pytest.fixture
def smtp():
    """Give a real SMTP server."""
    with SmtpSink() as sink:
        yield sink


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Show the end of each process's log below a failed test."""
    report = yield
    if report.failed and (kit := item.funcargs.get("kit")) is not None:
        for process in kit.processes:
            report.sections.append((f"{process.log.name} (pid {process.pid})", process.tail()))
    return report
