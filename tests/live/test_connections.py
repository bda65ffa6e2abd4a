"""Each process has a stated number of sessions with PostgreSQL, and no two processes use one."""

import os
import signal
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from tasks.api import draft, enqueue_many
from tasks.models import Job
from tasks.states import State
from tests.kit import wait_until
from tests.load import sign_up
from tests.services import free_port

pytestmark = pytest.mark.rung("postgresql+redis")
CONCURRENCY, THREADS = 2, 8
# docs/architecture.md, Connections
AT_MOST = {"web": THREADS, "relay": 2, "beat": 1, "worker": 2 + CONCURRENCY}


def sessions() -> Counter:
    """Return how many sessions each program has, by the name it was started under."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT application_name FROM pg_stat_activity WHERE datname = current_database()")
        return Counter(name for (name,) in cursor.fetchall() if name)


def sockets(pid: int) -> set[str]:
    """Return a process's sockets to PostgreSQL, its own and inherited ones."""
    port = f"{int(settings.DATABASES['default']['PORT']):04X}"
    lines = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    ours = {f"socket:[{line[9]}]" for line in lines if line[2].endswith(":" + port)}
    opened = [os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir() if file.is_symlink()]
    return ours & set(opened)


def children(*pids: int) -> list[int]:
    """Return what these processes have forked."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", ",".join(map(str, pids))], capture_output=True, text=True)
    return [int(line) for line in found.stdout.split()]


def work(port: int) -> None:
    """Let web answer as many requests at once as it can, and both children run jobs."""
    with ThreadPoolExecutor(THREADS * 2) as pool:
        list(pool.map(lambda number: sign_up(port, number), range(THREADS * 2)))
    jobs = [job.id for job in enqueue_many(draft("test.nap", seconds=1) for _ in range(2 * CONCURRENCY))]
    wait_until(lambda: Job.objects.filter(id__in=jobs, state=State.SUCCEEDED).count() == len(jobs), 40)


def test_each_process_has_its_stated_number_of_sessions_and_shares_none(kit, smtp):
    """Also after a child was replaced: the new one is forked from a main process that has sessions."""
    kit.extra_env |= smtp.env
    port = free_port()
    web, relay, beat = kit.start("web", port=port), kit.start("relay"), kit.start("beat")
    worker = kit.start("worker", concurrency=CONCURRENCY)
    first = set(children(worker.pid))
    os.kill(min(first), signal.SIGKILL)
    wait_until(lambda: len(set(children(worker.pid)) - {min(first)}) == CONCURRENCY, 20, "the child is replaced")

    work(port)

    counted = sessions()
    assert set(counted) == set(AT_MOST)
    assert {name: number for name, number in counted.items() if number > AT_MOST[name]} == {}
    pids = [process.pid for process in (relay, beat, worker, web)]
    pids += children(worker.pid, web.pid)
    owned = Counter(socket for pid in pids for socket in sockets(pid))
    assert {socket for socket, owners in owned.items() if owners > 1} == set()
    assert len(sockets(worker.pid)) == 2
    assert max(len(sockets(pid)) for pid in children(worker.pid)) <= 1  # none between two messages
