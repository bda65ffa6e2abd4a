"""One run of the suite: its machine, and the items in their order with what each found."""

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.host.guest import Guest
from tests.host.machine import Machine
from tests.host.shell import CommandFailed, say
from tests.host.site import Site
from tests.host.visitors import Internet


@dataclass
class Suite:
    """What every item works with.

    Shape: findings are the sentences that go into the table's last column.
    """

    machine: Machine
    site: Site
    internet: Internet
    guest: Guest
    is_short: bool
    findings: list[str] = field(default_factory=list)
    # From the time: on a machine that was kept, people of the run before have numbers far below.
    _people: int = field(default_factory=lambda: 100 * int(time.time()))

    def found(self, sentence: str) -> None:
        """Put a sentence into the table."""
        self.findings.append(sentence)
        say(f"  {sentence}")

    def people(self, count: int) -> int:
        """Return the first number of so many people who have not signed up yet."""
        first, self._people = self._people + 1, self._people + count
        return first


@dataclass(frozen=True)
class Item:
    """One promise of the suite, with the number it has in the README's table."""

    number: str
    promise: str
    check: Callable[[Suite], None]


@dataclass(frozen=True)
class Result:
    """What became of an item.

    Units: seconds.
    """

    item: Item
    verdict: str
    seconds: float
    findings: list[str]


def run_item(suite: Suite, item: Item) -> Result:
    """Run one item; its failure keeps none of the others from being run."""
    say(f"{item.number} {item.promise}")
    suite.findings = []
    started = time.monotonic()
    try:
        item.check(suite)
        verdict = "passed"
    except (AssertionError, CommandFailed, TimeoutError) as error:
        verdict = "FAILED"
        suite.found(str(error))
    except Exception:  # a defect of the suite itself must not take the others' results along
        verdict = "BROKEN"
        suite.found(traceback.format_exc())
    seconds = time.monotonic() - started
    say(f"{item.number} {verdict} after {seconds:.0f} s")
    return Result(item, verdict, seconds, list(suite.findings))


def table(results: list[Result], about: str) -> str:
    """Return what was deployed, attacked and survived, a line for each item."""
    lines = [about]
    for result in results:
        lines.append(f"{result.item.number:>3} {result.verdict:<7} {result.seconds:5.0f} s  {result.item.promise}")
        for finding in result.findings:
            first, *rest = finding.splitlines() or [""]
            lines += [f"{'':21}{first}", *(f"{'':21}{line}" for line in rest)]
    return "\n".join(lines)


def new_suite(folder: Path, suite: str, memory: str, *, is_short: bool) -> Suite:
    """Return a run that has not started anything yet."""
    machine = Machine(folder, suite, memory)
    return Suite(machine, Site(machine), Internet(machine), Guest(machine), is_short)
