"""`python -m tests.chaos [--rung NAME] [--duration S] [--seed N]`: start servers of its own and run."""

import argparse
import os
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.rungs import RUNGS, environment

# Short, so that quiet comes soon and stops cut jobs off: the defaults are 15, 20 and 600 s.
QUICK = {"JOBS_LOST_GRACE_S": "2", "JOBS_DRAIN_ON_BROKER_LOSS_S": "2", "JOBS_DRAIN_S": "1"}


def main() -> int:
    """Run on one rung and return the exit code. The logs are kept when a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Kill things at random, then check.")
    parser.add_argument("--rung", choices=RUNGS, default="postgresql+redis")
    parser.add_argument("--duration", type=float, default=120, help="seconds of faults (default: 120)")
    parser.add_argument("--seed", type=int, default=1, help="the same seed, the same faults and jobs (default: 1)")
    parser.add_argument("--keep", action="store_true", help="keep the logs also when nothing went wrong")
    options = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="kit-chaos-"))
    base.chmod(0o711)  # PostgreSQL runs as another user and must reach its folder below
    with ExitStack() as stack:
        os.environ |= environment(options.rung, base, stack) | QUICK
        os.environ["DJANGO_SETTINGS_MODULE"] = "tests.chaos.settings"
        code = run(base, options)
    if not code and not options.keep:
        shutil.rmtree(base)
    return code


def run(base: Path, options: argparse.Namespace) -> int:
    """Make the tables and run. Imports need the environment."""
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection

    from tests.chaos.run import Run

    if connection.vendor == "sqlite":  # whoever ends a freeze must not wait for the frozen one's lock
        connection.settings_dict["OPTIONS"]["timeout"] = 0.2
    call_command("migrate", verbosity=0)
    logs = base / "logs"
    logs.mkdir()
    print(f"== {options.rung}, seed {options.seed}, {options.duration:g} s, {QUICK}", flush=True)
    return Run(logs, seed=options.seed, duration_s=options.duration).go()


if __name__ == "__main__":
    sys.exit(main())
