"""Which tests belong to this rung."""

import pytest

from tests import services


@pytest.fixture
def broker(tmp_path):
    """Give a connection to this rung's broker, emptied."""
    from tasks.broker import Broker  # not before Django is set up
    from tests.kit import Kit

    Kit(tmp_path)
    made = Broker()
    assert made.is_up()
    yield made
    made.close()


def pytest_report_header() -> str:
    """Say which rung this run is about."""
    return f"rung: {services.rung()}"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a rung's tests be shared out."""
    parser.addoption("--part", default="1/1", help="run every second test, e.g. 1/2 or 2/2")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that are marked for other rungs: they are not skipped, they do not apply."""
    here, elsewhere = [], []
    for item in items:
        applies = all(services.rung() in marker.args for marker in item.iter_markers("rung"))
        (here if applies else elsewhere).append(item)
    number, parts = map(int, config.getoption("part").split("/"))
    mine = here[number - 1 :: parts]
    elsewhere += [item for item in here if item not in mine]
    if elsewhere:
        config.hook.pytest_deselected(items=elsewhere)
        items[:] = mine
