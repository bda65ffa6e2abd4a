"""The deployed Redis refuses whom it does not know and what a role does not need, and the kit's processes nothing.

Source: docs/decisions/0011-redis-users.md
"""

import os
import signal
import urllib.request

import pytest
import redis

from tasks.api import draft, enqueue, enqueue_many
from tasks.models import Job
from tasks.states import State
from tests.kit import PYTHON, wait_until
from tests.secured import SecuredRedis, apply
from tests.services import free_port, need

pytestmark = pytest.mark.rung("postgresql+redis")

SERVICES = ("relay", "worker", "flower", "monitor")
# One that was taken over could do harm with any of these; each is refused to each service.
DANGEROUS = """
FLUSHALL; FLUSHDB; SWAPDB 0 1; SELECT 1; SHUTDOWN; DEBUG SLEEP 1; MONITOR; COMMAND; WAIT 1 1
CONFIG GET dir; CONFIG SET dir /tmp; MODULE LIST; SAVE; BGSAVE; BGREWRITEAOF; SLOWLOG GET; LATENCY LATEST
REPLICAOF 10.0.0.1 6379; SLAVEOF 10.0.0.1 6379; MIGRATE 10.0.0.1 6379 k 0 1; RESTORE k 0 v; DUMP q.default
EVAL return(1) 0; FUNCTION LIST; CLIENT LIST; CLIENT KILL ID 1; CLIENT PAUSE 1000; ACL LIST; ACL SETUSER evil; ACL LOG
KEYS *; SCAN 0; GET secret; SET secret 1; DEL q.default; DEL unacked; RENAME q.default q.other; TYPE q.default
LRANGE q.default 0 -1; HGETALL unacked; SORT q.default; OBJECT ENCODING q.default; MEMORY USAGE q.default
EXPIRE q.default 1; XADD s * a b; LPUSH other x; SUBSCRIBE news; PUBLISH other x
"""
# What one role needs and another must not have.
NOT_FOR = {
    "relay": "BRPOP q.default 1; RPOP q.default; HGET unacked a; PUBLISH /0.celery.pidbox x; EVALSHA x 0; INFO",
    "worker": "PUBLISH /0.celery.pidbox x; INFO",
    "flower": "LPUSH q.default x; BRPOP q.default 1; RPOP q.default; HGET unacked a; ZRANGE unacked_index 0 -1; INFO",
    "monitor": "LPUSH q.default x; BRPOP q.default 1; HGET unacked a; PUBLISH /0.celery.pidbox x; EVALSHA x 0",
}
TRIED = "FLUSHALL; CONFIG GET dir; KEYS *; ACL LIST; EVAL return(1) 0; SHUTDOWN"


def commands(text: str) -> list[list[str]]:
    """Return the commands of a text, each in words."""
    return [command.split() for line in text.splitlines() for command in line.split(";") if command.strip()]


@pytest.fixture
def secured(tmp_path):
    """Give a running Redis with the deployed files."""
    need("redis-server", "redis-server")
    (tmp_path / "secured").mkdir()
    server = SecuredRedis(tmp_path / "secured").start()
    yield server
    server.kill()


def start(kit, server: SecuredRedis, name: str, **options):
    """Start one of the kit's processes as the deploy does: with its own user."""
    return kit.start(name, env={"CELERY_BROKER_URL": server.url_of(name)}, **options)


def start_flower(kit, server: SecuredRedis, port: int):
    """Start Flower with its own user, and wait until it answers."""
    command = [PYTHON, "-m", "celery", "-A", "project", "flower", "--address=127.0.0.1", f"--port={port}"]
    env = {"CELERY_BROKER_URL": server.url_of("flower"), "FLOWER_UNAUTHENTICATED_API": "1", "BROKER_ACKS": "0"}
    process = kit.run("flower", command, env=env)
    process.wait_for_line("Connected to", timeout=60)
    return process


def page(port: int, path: str) -> str:
    """Return one of Flower's pages."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
        return answer.read().decode()


def test_processes_of_the_kit_are_refused_nothing(kit, secured):
    """From publishing to a warm stop that puts messages back, with Flower's pages open all the while."""
    start(kit, secured, "relay")
    worker = start(kit, secured, "worker")
    port = free_port()
    start_flower(kit, secured, port)

    enqueue_many(draft("test.echo", value=number, priority=number % 10) for number in range(60))
    killed = enqueue("test.nap", seconds=2, priority=9)
    running = wait_until(Job.objects.filter(id=killed.id, state=State.RUNNING).first, 30, "it runs")
    os.kill(running.child_pid, signal.SIGKILL)
    wait_until(lambda: Job.objects.filter(state=State.SUCCEEDED).count() == 61, 60, "all are done")
    for path in ("/workers", "/tasks", "/broker", "/metrics", "/api/workers?refresh=1", "/api/queues/length"):
        assert page(port, path)
    enqueue_many(draft("test.nap", seconds=1.5) for _ in range(12))
    wait_until(lambda: Job.objects.filter(state=State.RUNNING).count() == 2, 30, "two run")
    worker.terminate()
    assert worker.wait(30) == 0
    start(kit, secured, "worker", concurrency=4)
    wait_until(lambda: Job.objects.filter(state=State.SUCCEEDED).count() == 73, 60, "what was put back is done")

    assert secured.denials() == []


def test_worker_that_is_killed_is_followed_by_one_that_is_refused_nothing(kit, secured):
    """It finds what the dead one had taken: unacknowledged messages, and the marks of its control queue."""
    start(kit, secured, "relay")
    worker = start(kit, secured, "worker")
    job = enqueue("test.nap", seconds=4)
    wait_until(Job.objects.filter(id=job.id, state=State.RUNNING).exists, 30, "it runs")

    os.killpg(worker.pid, signal.SIGKILL)
    start(kit, secured, "worker")

    wait_until(Job.objects.filter(id=job.id, state=State.SUCCEEDED).exists, 40, "it has run again")
    assert secured.denials() == []


def test_redis_that_crashes_still_knows_what_was_being_worked_on(secured):
    """`default off -@all`, as most guides have it, silently drops every transaction when it reads its file.

    Source: redis issue 14541; kombu writes each message that is taken in a transaction.
    """
    with secured.client("worker") as worker, worker.pipeline(transaction=True) as transaction:
        transaction.zadd("unacked_index", {"tag": 1}).hset("unacked", "tag", "message").execute()

    secured.kill()
    secured.start()

    with secured.client() as admin:
        assert (admin.hget("unacked", "tag"), admin.zcard("unacked_index")) == ("message", 1)


@pytest.mark.parametrize("how", ["AUTH", "AUTH default", "AUTH wrong", "AUTH unknown", "nothing"])
def test_nobody_gets_in_without_name_and_password(secured, how):
    """Not by the account that everybody has without one, either."""
    words = {"AUTH": ["AUTH", "x"], "AUTH default": ["AUTH", "default", ""], "AUTH wrong": ["AUTH", "relay", "x"]}
    words["AUTH unknown"] = ["AUTH", "nobody", "x"]
    with redis.Redis(port=secured.port, protocol=2) as anonymous:
        with pytest.raises((redis.AuthenticationError, redis.ResponseError)):
            anonymous.execute_command(*words.get(how, ["GET", "x"]))
        with pytest.raises(redis.AuthenticationError):
            anonymous.llen("q.default")


@pytest.mark.parametrize("user", SERVICES)
def test_each_role_is_refused_what_it_does_not_need(secured, user):
    """Asked of Redis itself, and tried with the worst of them."""
    refused = commands(DANGEROUS + NOT_FOR[user])

    with secured.client() as admin:
        allowed = [words for words in refused if admin.execute_command("ACL", "DRYRUN", user, *words) == "OK"]

    assert allowed == []
    with secured.client(user) as client:
        for words in commands(TRIED):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*words)


def test_password_changes_without_anybody_being_cut_off(secured):
    """Both hold while the processes change over; whoever is connected stays so, in the middle of a wait too."""
    new = "n" * 64
    waiting = secured.client("worker")
    connection = waiting.connection_pool.get_connection()
    connection.send_command("BRPOP", "q.default", "20")
    live = apply["Redis"](str(secured.folder / "socket"))
    live("AUTH", "admin", secured.passwords["admin"])

    secured.passwords_old = dict(secured.passwords)
    secured.passwords["worker"] = new
    change(secured, live)

    for password in (new, secured.passwords_old["worker"]):
        with secured.client("worker", password) as client:
            assert client.ping()
    secured.passwords_old = {}
    change(secured, live)
    with secured.client("relay") as relay:
        relay.lpush("q.default", "message")
    assert connection.read_response() == ["q.default", "message"]
    with pytest.raises(redis.AuthenticationError), secured.client("worker", "o" * 64) as client:
        client.ping()


def change(server: SecuredRedis, live) -> list[str]:
    """Bring the running Redis' users to what users.acl says now, as the deploy does; return what changed."""
    lines = server.acl().splitlines()
    return list(apply["apply_users"](live, server.acl(), lines, is_check=False))
