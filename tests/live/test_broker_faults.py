"""Redis forgets, fills up, freezes or is cut off: every job still succeeds, and new work flows soon after."""

from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.conf import settings

from tasks.api import draft, enqueue, enqueue_many
from tasks.clock import database_now
from tasks.deafness import DEAF_S, LOOK_AGAIN_S
from tasks.models import Job
from tasks.registry import broker_queue
from tasks.states import State
from tests.kit import PYTHON, Kit, wait_until
from tests.proxy import Proxy
from tests.rows import row
from tests.supervised import Supervised
from tests.testjobs.models import Effect

pytestmark = pytest.mark.rung("postgresql+redis")

DEFAULT = broker_queue("default")
BACK_S = 30  # after Redis is back, new work is done within this time
START_S = 4  # and starting a worker takes less than this; on a machine that is busier, everything takes longer
SHORT_GRACE = {"JOBS_LOST_GRACE_S": "3"}


@pytest.fixture
def start(kit):
    """Give a way to start a relay and a supervised worker, in an environment of their own."""

    def started(concurrency: int = 2, **env: str) -> Supervised:
        kit.extra_env = env
        kit.start("relay")
        return Supervised(kit, "worker", concurrency=concurrency).wait_until_ready()

    return started


@pytest.fixture
def proxy(kit):
    """Give a network between the kit's processes and Redis that can fail."""
    with Proxy(kit.redis.port) as made:
        yield made


def through(proxy: Proxy) -> dict[str, str]:
    """Return the broker's address behind the proxy."""
    address = urlsplit(settings.CELERY_BROKER_URL)
    return {"CELERY_BROKER_URL": urlunsplit(address._replace(netloc=f"{address.hostname}:{proxy.port}"))}


def state_of(job: Job) -> str:
    """Return where the job stands now."""
    return Job.objects.get(id=job.id).state


def wait_for(job: Job, state: str, timeout: float = 30) -> None:
    """Wait until the job stands there."""
    wait_until(lambda: state_of(job) == state, timeout, f"job {job.id} is {state}; it is {state_of(job)}")


def relay_of(kit: Kit):
    """Return the relay of this test."""
    return next(process for process in kit.processes if process.name == "relay")


def assert_new_work_flows(worker: Supervised, within_s: float = BACK_S) -> None:
    """Enqueue a job and see it done in time."""
    wait_for(enqueue("test.echo", value="new"), State.SUCCEEDED, within_s * max(1.0, worker.start_s / START_S))


def assert_all_ran_once(timeout: float = 60) -> None:
    """See every job succeed in its first and only run, with one effect each."""
    jobs = Job.objects.exclude(kind="test.nap")
    unfinished = Job.objects.exclude(state=State.SUCCEEDED)
    wait_until(lambda: not unfinished.exists(), timeout, f"all succeed, but {list(unfinished.values('id', 'state'))}")
    assert set(Job.objects.values_list("run", "attempts")) == {(1, 1)}
    assert Effect.objects.count() == jobs.count()


def forget_all(kit: Kit) -> None:
    """An operator's FLUSHALL."""
    kit.redis.flush()


def crash(kit: Kit) -> None:
    """kill -9: what the append-only file has not got yet is lost."""
    kit.redis.kill()
    kit.redis.start()


def lose_volume(kit: Kit) -> None:
    """It comes back on an empty folder."""
    kit.redis.kill()
    kit.redis.lose_volume()
    kit.redis.start()


@pytest.mark.parametrize("fault", [forget_all, crash, lose_volume])
def test_jobs_waiting_in_a_broker_that_forgets_run_once(kit, start, fault):
    """The rows know what the broker held; the running job is not disturbed either."""
    worker = start(concurrency=1, **SHORT_GRACE)
    running = enqueue("test.nap", seconds=4)
    wait_for(running, State.RUNNING)
    enqueue_many(draft("test.echo", value=number) for number in range(20))
    wait_until(lambda: Job.objects.filter(state=State.RELAYED).count() == 20, 20, "the broker holds them")

    fault(kit)

    assert_new_work_flows(worker)
    assert_all_ran_once()


@contextmanager
def full(kit: Kit):
    """No memory left: writes are refused."""
    kit.redis.set("maxmemory", 1)
    yield "OutOfMemoryError"
    kit.redis.set("maxmemory", 0)


@contextmanager
def unable_to_save(kit: Kit):
    """MISCONF: it cannot write its snapshot, and so takes no writes."""
    obstacle: Path = kit.redis.folder / "dump.rdb"
    obstacle.mkdir()
    kit.redis.set("save", "3600 1")
    kit.redis.try_to_save()
    yield "MISCONF"
    obstacle.rmdir()
    kit.redis.try_to_save()
    kit.redis.set("save", "")


@pytest.mark.parametrize("fault", [full, unable_to_save])
def test_broker_that_refuses_writes_costs_nothing_but_time(kit, start, fault):
    """Enqueuing goes on; the worker ends itself and is started again until it can work."""
    worker = start(**SHORT_GRACE)
    running = enqueue("test.nap", seconds=2)
    wait_for(running, State.RUNNING)

    with fault(kit) as reason:
        enqueue_many(draft("test.echo", value=number) for number in range(20))
        relay_of(kit).wait_for_line(reason)
        wait_until(lambda: worker.restarts >= 1, 30, "the worker ends itself")
        wait_for(running, State.SUCCEEDED)

    assert_new_work_flows(worker)
    assert_all_ran_once()


PAUSE_MS = 12_000  # beyond all timeouts of a connection


@contextmanager
def frozen(kit: Kit, proxy: Proxy):
    """SIGSTOP: connections stay open and nothing answers."""
    kit.redis.pause()
    yield
    kit.redis.resume()


@contextmanager
def client_pause(kit: Kit, proxy: Proxy):
    """CLIENT PAUSE: it lives, and keeps everybody waiting, also whoever would end the pause."""
    with kit.redis.client() as client:
        client.client_pause(PAUSE_MS)
        yield
        wait_until(kit.redis.answers, 30, "the pause is over")


@contextmanager
def network_cut(kit: Kit, proxy: Proxy):
    """No byte passes for a while; then the connections are gone."""
    proxy.cut()
    yield
    proxy.reset()


@contextmanager
def network_forgotten(kit: Kit, proxy: Proxy):
    """No byte passes for a while; then new connections work, and those of before never answer nor end."""
    proxy.cut()
    yield
    proxy.forget()


@pytest.mark.parametrize("fault", [frozen, client_pause, network_cut, network_forgotten])
def test_silent_broker_costs_nothing_but_time(kit, proxy, start, fault):
    """For longer than the socket timeouts, while a job ends and others are enqueued."""
    worker = start(**through(proxy), **SHORT_GRACE)
    running = enqueue("test.nap", seconds=2)
    wait_for(running, State.RUNNING)

    with fault(kit, proxy):
        enqueue_many(draft("test.echo", value=number) for number in range(20))
        relay_of(kit).wait_for_line("the broker is away")
        wait_for(running, State.SUCCEEDED)

    assert_new_work_flows(worker)
    assert_all_ran_once()


def test_idle_worker_whose_connection_hangs_half_open_hears_again(kit, proxy, start):
    """Nobody ends the connection, and nothing comes through it any more: it is given up after a missing answer."""
    worker = start(**through(proxy), **SHORT_GRACE)
    assert_new_work_flows(worker)

    proxy.forget()

    assert_new_work_flows(worker)
    assert_all_ran_once()


def test_long_job_does_not_keep_new_work_waiting_after_a_crash(kit, start):
    """Its worker takes nothing new while it drains, so it gives the job back without charge and starts anew."""
    worker = start()
    long = enqueue("test.long_nap", seconds=40)
    wait_for(long, State.RUNNING)

    crash(kit)

    assert_new_work_flows(worker)
    assert worker.restarts == 1
    wait_for(long, State.RUNNING)
    assert list(Job.objects.filter(id=long.id).values_list("run", "attempts", "interruptions")) == [(2, 1, 1)]


def test_long_job_does_not_keep_new_work_waiting_on_a_half_open_connection(kit, proxy, start):
    """The slowest of all ways: a missing answer, a command that hangs, the drain, the start, one after another."""
    worker = start(**through(proxy), **SHORT_GRACE)
    long = enqueue("test.long_nap", seconds=60)
    wait_for(long, State.RUNNING)

    proxy.forget()

    assert_new_work_flows(worker)
    assert worker.restarts == 1
    wait_for(long, State.RUNNING)
    assert list(Job.objects.filter(id=long.id).values_list("run", "attempts", "interruptions")) == [(2, 1, 1)]


def test_worker_that_starts_during_an_outage_looks_often(kit):
    """However long the outage was, it is there within seconds of Redis' return."""
    kit.redis.stop()
    kit.start("relay")
    worker = Supervised(kit, "worker")
    worker.supervisor.wait_for_line("Trying again in 5.00 seconds", 60)

    kit.redis.start()

    assert_new_work_flows(worker)


def test_deaf_worker_ends_itself_and_an_idle_one_is_left_alone(kit, start):
    """Its consumer is gone, and messages lie in its queue; the idle one's only misses a lost one."""
    deaf = start(JOBS_LOST_GRACE_S="3600")
    idle = Supervised(kit, "worker", queues=["mail"]).wait_until_ready()
    kit.run("control", [PYTHON, "-m", "celery", "-A", "project", "control", "cancel_consumer", DEFAULT]).wait()
    wait_until(lambda: "Canceling queue" in deaf.output, 20, "the worker is deaf")
    lost = row(State.RELAYED, queue="mail", relays=1, relayed_at=database_now() - timedelta(seconds=DEAF_S))

    assert_new_work_flows(deaf, within_s=DEAF_S + 2 * LOOK_AGAIN_S + 15)
    assert "this worker hears none of them: it ends, to be started again" in deaf.output
    assert (deaf.restarts, idle.restarts) == (1, 0)
    assert state_of(lost) == State.RELAYED


def test_worker_that_cannot_acknowledge_takes_new_work(kit, proxy, start):
    """The message of its only child's job would fill its place for ever: it starts anew instead."""
    worker = start(concurrency=1, **through(proxy), **SHORT_GRACE)
    running = enqueue("test.nap", seconds=3)
    wait_for(running, State.RUNNING)

    proxy.forget()
    wait_for(running, State.SUCCEEDED)

    assert_new_work_flows(worker)
    assert_all_ran_once()
    assert "hears none of them" not in worker.output
