"""A short random fault run: whatever dies, and in whichever order, every job has its own end. `make chaos` is long."""

import subprocess
import sys

import pytest

from tests import services
from tests.kit import ROOT

SEED = 354  # in 20 s: workers, children, relays, Redis and PostgreSQL all get their share


@pytest.mark.timeout(400)  # alone about 45 s; the longest waits of the run are bounded by less
@pytest.mark.parametrize(
    "duration_s",
    [
        pytest.param(20, marks=pytest.mark.rung("postgresql+redis")),
        pytest.param(10, marks=pytest.mark.rung("sqlite+filesystem")),
    ],
)
def test_random_faults_break_no_promise(duration_s):
    """The run has servers of its own, and prints what it did and which promise was broken."""
    command = [sys.executable, "-m", "tests.chaos", "--rung", services.rung()]

    run = subprocess.run(
        [*command, f"--duration={duration_s}", f"--seed={SEED}"], cwd=ROOT, capture_output=True, text=True, timeout=390
    )

    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr[-5_000:]
