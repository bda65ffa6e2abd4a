"""A lock is held as long as its process lives, and not a moment longer."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from tasks import locks
from tests.kit import PYTHON, wait_until

# Locks are the database's: once for each is enough.
pytestmark = pytest.mark.rung("sqlite+filesystem", "postgresql+filesystem")

HOLD = """
import django, sys, time
django.setup()
from tasks import locks
held = locks.try_hold("here", is_shared={shared})
print("held" if held else "not held", flush=True)
time.sleep(60)
"""


def hold(kit, *, shared: bool = False):
    """Start a process that tries to hold the lock, and return it with what it said."""
    process = kit.run("holder", [PYTHON, "-c", HOLD.format(shared=shared)])
    return process, process.wait_for_line("held")


@pytest.fixture(autouse=True)
def own_lock(kit):
    """Start without a holder."""
    assert not locks.is_held("here")


def test_killed_process_gives_its_lock_back_at_once(kit):
    """The system drops it; nobody has to guess from timestamps."""
    process, said = hold(kit)
    assert said == "held" and locks.is_held("here")

    process.kill()

    wait_until(lambda: not locks.is_held("here"), 5, "the lock is free")


def test_second_process_does_not_get_an_exclusive_lock(kit):
    """One holder."""
    hold(kit)

    _, said = hold(kit)

    assert said == "not held"
    assert locks.try_hold("here") is None


def test_looks_do_not_make_an_owner_fail(kit):
    """Somebody looks all the time, and each try succeeds nevertheless."""
    is_done = threading.Event()

    def look_all_the_time() -> int:
        looks = 0
        try:
            while not is_done.is_set():
                locks.held({"here"})
                looks += 1
            return looks
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        looks = pool.submit(look_all_the_time)
        taken = []
        for _ in range(100):
            taken.append(locks.try_hold("here"))
            if taken[-1]:
                taken[-1].release()
        is_done.set()

    assert looks.result() > 0
    assert all(taken)


def test_what_a_dead_owner_leaves_is_not_held(kit):
    """Neither does a look bring back what was forgotten, nor does it keep a new owner out."""
    process, _ = hold(kit)
    process.kill()
    wait_until(lambda: locks.held({"here", "never"}) == set(), 5, "the lock is free")

    locks.forget("here")

    assert locks.held({"here"}) == set()
    assert connection.vendor == "postgresql" or not locks._path("here").exists()
    again = locks.try_hold("here")
    assert again and locks.held({"here", "never"}) == {"here"}
    again.release()


def test_shared_lock_is_held_until_the_last_holder_ends(kit):
    """As the relays do it."""
    first, _ = hold(kit, shared=True)
    second, said = hold(kit, shared=True)
    assert said == "held"

    first.kill()
    assert locks.is_held("here")
    second.kill()

    wait_until(lambda: not locks.is_held("here"), 5, "the lock is free")


def test_looking_takes_nothing(kit):
    """A look does not keep the next owner out."""
    assert not locks.is_held("here")

    held = locks.try_hold("here")

    assert held and locks.is_held("here")
    held.release()
    wait_until(lambda: not locks.is_held("here"), 5, "the lock is free")  # PostgreSQL ends a session a moment later
    connection.close()
