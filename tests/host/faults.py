"""Faults that can be taken back: each is a `with` block."""

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.host.machine import Machine
from tests.host.shell import CommandFailed, wait_for

BALLAST = "/var/lib/suite-ballast"
# All but 16 MB at once, without writing it; then every block that is left, those kept for root too.
FILL = (
    f"fallocate -l $(( $(stat -f -c '%f * %S' /) - 16777216 )) {BALLAST}; "
    f"dd if=/dev/zero of={BALLAST}.rest bs=4k 2>&1 | grep -q 'No space left'"
)
DUMP = "/var/lib/redis/dump.rdb"
BAD_ANSWERS = ("ERR", "NOPERM", "WRONGPASS", "NOAUTH", "MISCONF")


@contextmanager
def full_disk(machine: Machine) -> Iterator[None]:
    """Have no block left on the disk."""
    try:
        machine.ssh(FILL, timeout_s=120)
        yield
    finally:
        machine.ssh(f"rm -f {BALLAST} {BALLAST}.rest")


@contextmanager
def redis_refusing_writes(machine: Machine) -> Iterator[None]:
    """Have Redis refuse writes as it does when its last snapshot has failed (MISCONF).

    It is told to take snapshots, and a folder stands where its file should be; the append only file stays as it is.
    """
    admin = redis_admin(machine)

    def last_save_is(state: str) -> bool:
        return f"rdb_last_bgsave_status:{state}" in admin("INFO", "persistence")

    machine.ssh(f"rm -f {DUMP} && install -d {DUMP}/taken")
    try:
        admin("CONFIG", "SET", "save", "3600 1")
        admin("BGSAVE")
        wait_for("A save that fails", lambda: last_save_is("err"), timeout_s=30)
        yield
    finally:
        machine.ssh(f"rm -r {DUMP}")
        admin("BGSAVE")
        wait_for("A save that works", lambda: last_save_is("ok"), timeout_s=30)
        admin("CONFIG", "SET", "save", "")


def redis_admin(machine: Machine) -> Callable[..., str]:
    """Return what runs a command in Redis as its administrator."""

    def admin(*words: str) -> str:
        login = "REDISCLI_AUTH=$(cat /etc/kit/secrets/redis_admin)"
        client = "redis-cli -s /run/redis/redis.sock --user admin --no-auth-warning"
        answer = machine.ssh(f"{login} {client} {shlex.join(words)}")
        if answer.startswith(BAD_ANSWERS):
            raise CommandFailed(f"Redis answers {words[0]} with {answer.strip()}")
        return answer

    return admin
