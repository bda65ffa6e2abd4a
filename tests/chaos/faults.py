"""What can go wrong: each fault does its harm, says how long that lasts, and ends it.

A fault is a generator: it yields the seconds after which it wants to be called again, and ends by itself.
"""

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

import psycopg

from tests.chaos.supervised import Supervised, children_of
from tests.chaos.system import System

Harm = Callable[[System, Random], Iterator[float]]
DOWN_S, FROZEN_S = (0.0, 4.0), (0.5, 4.0)


class NothingThere(Exception):
    """What the fault would have hit is down, or has not started yet."""


@dataclass(frozen=True)
class Fault:
    """One way for things to go wrong. Shape: server is what only one fault at a time may touch."""

    name: str
    harm: Harm
    weight: int
    server: str = ""


def one_of(processes: list[Supervised], random: Random) -> Supervised:
    """Return one that has started. Raises: NothingThere."""
    chosen = processes[random.randrange(len(processes))]
    if not chosen.is_ready:
        raise NothingThere
    return chosen


# -- processes ----------------------------------------------------------------------------------


def kill_worker(system: System, random: Random) -> Iterator[float]:
    """Kill the main process, or all of the group at once."""
    whole_group, worker = random.random() < 0.5, one_of(system.workers, random)
    system.note_kill(worker.pid)
    worker.hit(signal.SIGKILL, whole_group=whole_group)
    yield 0


def kill_child(system: System, random: Random) -> Iterator[float]:
    """Kill one process of a worker's pool."""
    which, children = random.random(), one_of(system.workers, random).children()
    if not children:
        raise NothingThere
    pid = children[int(which * len(children))]
    system.note_kill(pid)
    os.kill(pid, signal.SIGKILL)
    yield 0


def hit(which: str, number: int) -> Harm:
    """Return what sends a signal to the main process of a worker, relay or beat."""

    def harm(system: System, random: Random) -> Iterator[float]:
        one_of(getattr(system, which), random).hit(number)
        yield 0

    return harm


def freeze(which: str) -> Harm:
    """Return what stops a worker, relay or beat where it is, with its children, for a while."""

    def harm(system: System, random: Random) -> Iterator[float]:
        for_s, process = random.uniform(*FROZEN_S), one_of(getattr(system, which), random)
        since = time.monotonic()
        process.freeze()
        yield for_s
        process.resume()
        system.note_freeze(process.pid, since)

    return harm


# -- Redis --------------------------------------------------------------------------------------


def flush_redis(system: System, random: Random) -> Iterator[float]:
    """Let it forget everything."""
    system.redis.flush()
    yield 0


def kill_redis(system: System, random: Random) -> Iterator[float]:
    """Let it crash, and be away for a moment."""
    system.redis.kill()
    yield random.uniform(*DOWN_S)
    system.redis.start()


def restart_redis(system: System, random: Random) -> Iterator[float]:
    """Stop it in order, and start it later."""
    system.redis.stop()
    yield random.uniform(*DOWN_S)
    system.redis.start()


def lose_redis_volume(system: System, random: Random) -> Iterator[float]:
    """Let it crash and come back on an empty folder."""
    system.redis.kill()
    yield random.uniform(*DOWN_S)
    shutil.rmtree(system.redis.folder / "appendonlydir", ignore_errors=True)
    system.redis.start()


def freeze_redis(system: System, random: Random) -> Iterator[float]:
    """Stop it where it is: connections stay open and nothing answers, at times for longer than the socket timeout."""
    system.redis.pause()
    yield random.uniform(0.5, 7.0)
    system.redis.resume()


def pause_redis(system: System, random: Random) -> Iterator[float]:
    """Let it accept commands and answer none of them."""
    for_s = random.uniform(0.5, 7.0)
    with system.redis.client() as client:
        client.client_pause(int(for_s * 1_000))
    yield for_s + 0.5


def fill_redis(system: System, random: Random) -> Iterator[float]:
    """Let it refuse whatever takes memory."""
    with system.redis.client() as client:
        client.config_set("maxmemory", "1")
    yield random.uniform(1.0, 5.0)
    with system.redis.client() as client:
        client.config_set("maxmemory", "0")


def cut_redis(system: System, random: Random) -> Iterator[float]:
    """Reset every connection to it."""
    with system.redis.client() as client:
        client.client_kill_filter(_type="normal", skipme=True)
    yield 0


# -- PostgreSQL ---------------------------------------------------------------------------------


def kill_postgresql(system: System, random: Random) -> Iterator[float]:
    """Kill it with all its processes; it recovers from its log at the next start."""
    postmaster = system.postgresql.pid
    os.kill(postmaster, signal.SIGSTOP)  # or it would fork meanwhile
    for pid in [postmaster, *children_of(postmaster)]:
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(postmaster, 0)  # PostgreSQL takes a zombie for a postmaster that runs
    yield random.uniform(*DOWN_S)
    system.postgresql.start()


def crash_postgresql(system: System, random: Random) -> Iterator[float]:
    """Kill one of its sessions: it ends all the others and recovers by itself."""
    with psycopg.connect(system.postgresql.url, connect_timeout=5) as session:
        query = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        pids = sorted(pid for (pid,) in session.execute(query))
    if not pids:
        raise NothingThere
    os.kill(random.choice(pids), signal.SIGKILL)
    yield 1.0


def restart_postgresql(system: System, random: Random) -> Iterator[float]:
    """Stop it in order, which ends all sessions, and start it later."""
    system.postgresql.stop()
    yield random.uniform(*DOWN_S)
    system.postgresql.start()


def cut_postgresql(system: System, random: Random) -> Iterator[float]:
    """End about half of its sessions."""
    with psycopg.connect(system.postgresql.url, connect_timeout=5) as session:
        session.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND random() < 0.5"
        )
    yield 0


FAULTS = [
    Fault("worker killed -9", kill_worker, 6),
    Fault("child killed -9", kill_child, 6),
    Fault("worker frozen", freeze("workers"), 4),
    Fault("worker SIGTERM", hit("workers", signal.SIGTERM), 4),
    Fault("worker SIGQUIT", hit("workers", signal.SIGQUIT), 2),
    Fault("relay killed -9", hit("relays", signal.SIGKILL), 3),
    Fault("relay SIGTERM", hit("relays", signal.SIGTERM), 2),
    Fault("relay frozen", freeze("relays"), 2),
    Fault("beat killed -9", hit("beats", signal.SIGKILL), 2),
    Fault("beat SIGTERM", hit("beats", signal.SIGTERM), 2),
    Fault("beat frozen", freeze("beats"), 1),
    Fault("Redis FLUSHALL", flush_redis, 3, "redis"),
    Fault("Redis killed -9", kill_redis, 1, "redis"),
    Fault("Redis restarted", restart_redis, 1, "redis"),
    Fault("Redis volume lost", lose_redis_volume, 1, "redis"),
    Fault("Redis frozen", freeze_redis, 1, "redis"),
    Fault("Redis CLIENT PAUSE", pause_redis, 1, "redis"),
    Fault("Redis full", fill_redis, 1, "redis"),
    Fault("Redis links cut", cut_redis, 1, "redis"),
    Fault("PostgreSQL killed -9", kill_postgresql, 1, "postgresql"),
    Fault("PostgreSQL crashed", crash_postgresql, 1, "postgresql"),
    Fault("PostgreSQL restarted", restart_postgresql, 1, "postgresql"),
    Fault("PostgreSQL links cut", cut_postgresql, 2, "postgresql"),
]


def possible(system: System) -> list[Fault]:
    """Return the faults that this rung has servers for."""
    there = {"", "redis"} if system.redis else {""}
    there |= {"postgresql"} if system.postgresql else set()
    return [fault for fault in FAULTS if fault.server in there]
