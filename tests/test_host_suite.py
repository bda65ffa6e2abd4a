"""What the host suite makes of what programs print; the machine itself is tested by `make test-host`."""

from pathlib import Path

import pytest

from tests.host import kernel, mutations
from tests.host.shell import CommandFailed, run, wait_for
from tests.host.site import INSERTIONS, Outcome, with_trial
from tests.host.suite import Item, Result, table

pytestmark = pytest.mark.rung("sqlite+filesystem")  # nothing in it depends on database or broker

ROOT = Path(__file__).resolve().parent.parent
PRINTED = """
TASK [redis : Ensure Redis refuses commands without a password (R-07).] ****
changed: [kit]
TASK [redis : Look at its state] ****
ok: [kit]
TASK [base : Ensure only three ports answer (H-22).] ****
fatal: [kit]: FAILED! => {"msg": "8081 answers"}
PLAY RECAP ****
kit : ok=3 changed=1 unreachable=0 failed=1
"""


def test_an_outcome_tells_what_changed():
    """The recap's number, and the names of the tasks."""
    outcome = Outcome("deploy", 2, PRINTED, 1.0)

    assert outcome.changed == 1
    assert outcome.changes() == "redis : Ensure Redis refuses commands without a password (R-07)."


def test_only_failed_tasks_name_an_item():
    """What verify merely looked at does not count as named."""
    named = mutations.failures(PRINTED)

    assert "H-22" in named
    assert "R-07" not in named


def test_the_trial_fits_into_the_settings():
    """The suite commits it to its clone; a change of the settings must not break that unseen."""
    text = with_trial(ROOT)

    assert all(line in text for line in INSERTIONS.values())


def test_the_kernel_configuration_asks_for_what_the_kit_needs():
    """A line that is lost here would be found after 8 minutes only."""
    lines = kernel.CONFIG.read_text().splitlines()

    assert [name for name in kernel.NEEDED if f"CONFIG_{name}=y" not in lines] == []


def test_a_failed_program_shows_its_last_lines():
    """Who reads the message needs no log."""
    with pytest.raises(CommandFailed, match="ended with 3:\n  no room"):
        run(["sh", "-c", "echo no room >&2; exit 3"])


def test_what_does_not_come_is_said():
    """A wait ends with a sentence."""
    with pytest.raises(TimeoutError, match="The train: not within 0 s"):
        wait_for("The train", lambda: False, timeout_s=0, every_s=0.01)


def test_the_table_has_a_line_for_each_item_and_finding():
    """Longer findings are indented."""
    result = Result(Item("1", "it deploys", lambda suite: None), "FAILED", 61.4, ["first\nsecond", "third"])

    lines = table([result], "Debian").splitlines()

    assert lines[1].split() == ["1", "FAILED", "61", "s", "it", "deploys"]
    assert [line.strip() for line in lines[2:]] == ["first", "second", "third"]
