"""Which tests belong to this rung."""

import pytest

from tests import services


def pytest_report_header() -> str:
    """Say which rung this run is about."""
    return f"rung: {services.rung()}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that are marked for other rungs: they are not skipped, they do not apply."""
    here, elsewhere = [], []
    for item in items:
        applies = all(services.rung() in marker.args for marker in item.iter_markers("rung"))
        (here if applies else elsewhere).append(item)
    if elsewhere:
        config.hook.pytest_deselected(items=elsewhere)
        items[:] = here
