"""The faults of a run: drawn one after another, begun, kept going and ended."""

import time
from collections import Counter
from collections.abc import Iterator
from random import Random

from tests.chaos.faults import Fault, NothingThere, possible
from tests.chaos.system import System

FAULT_GAP_S = (0.5, 4.5)


class Storm:
    """The faults of a run, one after another and some at once; which and when comes from the seed."""

    def __init__(self, seed: int, system: System):
        self._system, self._random = system, Random(f"faults {seed}")
        self._choice = possible(system)
        self._next_at = 0.0
        self._active: list[tuple[float, Fault, Iterator[float]]] = []
        self.counts: Counter[str] = Counter()
        self.missed = 0

    def step(self, elapsed_s: float) -> None:
        """Go on with the faults at work, and begin the next one if its time has come."""
        self.go_on()
        if elapsed_s < self._next_at or not any(worker.is_ready for worker in self._system.workers):
            return  # while no worker has started, faults would only hit starts
        self._next_at = elapsed_s + self._random.uniform(*FAULT_GAP_S)
        [fault] = self._random.choices(self._choice, [fault.weight for fault in self._choice])
        own_random = Random(self._random.random())
        if fault.server and any(fault.server == active.server for _, active, _ in self._active):
            self.missed += 1
            return
        self._begin(fault, own_random)

    def go_on(self) -> bool:
        """Call those whose time has come, and tell whether any is still at work."""
        waiting, self._active = self._active, []
        for until, fault, harm in waiting:
            self._call(fault, harm) if time.monotonic() >= until else self._active.append((until, fault, harm))
        return bool(self._active)

    def _begin(self, fault: Fault, random: Random) -> None:
        try:
            self._call(fault, fault.harm(self._system, random))
        except NothingThere:
            self.missed += 1
        else:
            self.counts[fault.name] += 1
            say(f"{fault.name}")

    def _call(self, fault: Fault, harm: Iterator[float]) -> None:
        if (wait_s := next(harm, None)) is not None:
            self._active.append((time.monotonic() + wait_s, fault, harm))


def say(text: str) -> None:
    """Print a line with the time of day, as the logs have it."""
    print(time.strftime("%H:%M:%S"), text, flush=True)
