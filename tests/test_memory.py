"""A child that the kernel killed for lack of memory: the row says so where the control group's count tells."""

import subprocess

import pytest

from tasks.children import KILLED, OUT_OF_MEMORY, Children
from tasks.claiming import WORKER
from tasks.memory import OomKills, events_file
from tasks.models import Job
from tasks.states import State
from tests.rows import row

LOST = f"Its process was lost: Worker exited prematurely: signal 9 ({KILLED}) Job: 1."
EVENTS = "low 0\nhigh 0\nmax 7\noom 3\noom_kill {}\noom_group_kill 0\n"  # as the kernel writes it


@pytest.fixture
def events(tmp_path):
    """Give a group's file, in which nothing was killed lately."""
    file = tmp_path / "memory.events"
    file.write_text(EVENTS.format(4))
    return file


@pytest.fixture
def children(events):
    """Give what looks after a worker's children, and reads that file."""
    made = Children()
    made.kills = OomKills(events)
    return made


def killed_child() -> int:
    """Return the pid of a child that SIGKILL has ended."""
    child = subprocess.Popen(["sleep", "60"])
    child.kill()
    child.wait()
    return child.pid


def error_of(children: Children, reason: str = LOST) -> str:
    """Look at a job whose child is dead for the reason the pool tells; return what the row says."""
    job = row(State.RUNNING, worker=WORKER, child_pid=killed_child())
    children.explain(job.child_pid, reason)
    children.look()
    return Job.objects.get(id=job.id).history[0]["error"]


@pytest.mark.django_db
def test_kill_that_the_group_counts_is_probably_for_lack_of_memory(children, events):
    events.write_text(EVENTS.format(5))

    assert error_of(children) == OUT_OF_MEMORY


@pytest.mark.django_db
def test_one_counted_kill_explains_one_death(children, events):
    events.write_text(EVENTS.format(5))
    error_of(children)

    assert error_of(children) == LOST


@pytest.mark.django_db
@pytest.mark.parametrize("reason", [LOST, LOST.replace(KILLED, "SIGSEGV")])
def test_other_death_keeps_its_reason(children, events, reason):
    if KILLED not in reason:
        events.write_text(EVENTS.format(5))

    assert error_of(children, reason) == reason


@pytest.mark.django_db
def test_count_that_cannot_be_read_any_more_stops_nothing(children, events):
    events.unlink()

    assert error_of(children) == LOST


@pytest.mark.parametrize(
    ("membership", "found"),
    [
        ("0::/system.slice/kit-worker.service\n", True),
        ("4:memory:/kit\n0::/system.slice/kit-worker.service\n", True),
        ("4:memory:/kit\n0::/\n", False),  # version 1 counts the memory: nothing to read here
        ("4:memory:/kit\n", False),
        (None, False),  # no Linux
    ],
)
def test_events_file_is_the_one_of_the_service(tmp_path, membership, found):
    events = tmp_path / "system.slice" / "kit-worker.service" / "memory.events"
    events.parent.mkdir(parents=True)
    events.write_text(EVENTS.format(0))
    file = tmp_path / "cgroup"
    if membership is not None:
        file.write_text(membership)

    assert events_file(file, tmp_path) == (events if found else None)
