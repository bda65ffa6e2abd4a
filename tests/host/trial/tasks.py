"""The jobs of the trial."""

import time

from tasks.api import job


@job("trial.sleep", soft_time_limit_s=300, time_limit_s=330)
def sleep(seconds: float) -> None:
    """Be running for a while."""
    time.sleep(seconds)


@job("trial.burn", soft_time_limit_s=300, time_limit_s=330)
def burn(seconds: float) -> None:
    """Take all the CPU it can get."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        pass


@job("trial.hog", max_attempts=1)
def hog() -> None:
    """Take all the memory it can get."""
    kept = []
    while True:
        kept.append(bytearray(8 * 1024 * 1024))
