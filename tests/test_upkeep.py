"""When updates that are felt come in."""

import re

import jinja2
import pytest

from tests.kit import ROOT

pytestmark = pytest.mark.rung("sqlite+filesystem")  # nothing in it depends on database or broker

TIMER = ROOT / "deploy/base/kit-upkeep.timer.j2"


@pytest.mark.parametrize(("reboot", "upkeep"), [("04:30", "03:20"), ("00:30", "23:20"), ("23:59", "22:49")])
def test_upkeep_has_ended_when_the_host_may_reboot(reboot, upkeep):
    rendered = jinja2.Environment(undefined=jinja2.StrictUndefined).from_string(TIMER.read_text())

    assert re.findall(r"^OnCalendar=(.*)$", rendered.render(kit_reboot_time=reboot), re.M) == [f"*-*-* {upkeep}"]
