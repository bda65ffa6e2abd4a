"""What the deployed machine says of itself, asked as root over SSH."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from tests.host.machine import Machine
from tests.host.shell import wait_for

ROLES = ("web", "relay", "worker", "beat", "flower")
LIVE = "('waiting', 'relayed', 'running')"
ENQUEUE = """
INSERT INTO tasks_job (kind, queue, priority, state, arguments, version, unique_scope, run, attempts, max_attempts,
                       interruptions, relays, enqueued_at, run_at, worker, history)
SELECT '{kind}', 'default', 5, 'waiting', '{arguments}', 1, 'row', 0, 0, {max_attempts},
       0, 0, now(), now() + interval '{delay_s} s', '', '[]'
FROM generate_series(1, {count}) RETURNING id
"""


@dataclass(frozen=True)
class JobRow:
    """A job as it stands in the table."""

    id: int
    kind: str
    state: str
    run: int
    attempts: int
    history: str

    def __str__(self):
        return f"job {self.id} {self.kind}: {self.state}, run {self.run}, attempts {self.attempts}, {self.history}"


class Guest:
    """The kit's host."""

    def __init__(self, machine: Machine):
        self.machine = machine

    # -- jobs ------------------------------------------------------------------------------------
    def sql(self, query: str, database: str = "kit") -> list[list[str]]:
        """Return the rows that a query gives, asked as PostgreSQL's administrator."""
        command = f"cd / && runuser -u postgres -- psql -XAtq -F '\t' -v ON_ERROR_STOP=1 {database}"
        return [line.split("\t") for line in self.machine.ssh(command, text=query).splitlines()]

    def count(self, query: str) -> int:
        """Return the number that a query gives."""
        return int(self.sql(query)[0][0])

    def enqueue(
        self, kind: str, *, count: int = 1, delay_s: float = 0, max_attempts: int = 5, **arguments: object
    ) -> list[int]:
        """Write jobs of the trial and return their ids; the relay finds them at its next look."""
        query = ENQUEUE.format(
            kind=kind, arguments=json.dumps(arguments), count=count, delay_s=delay_s, max_attempts=max_attempts
        )
        return [int(row[0]) for row in self.sql(query)]

    def jobs(self, where: str) -> list[JobRow]:
        """Return the jobs that a condition finds."""
        rows = self.sql(f"SELECT id, kind, state, run, attempts, history FROM tasks_job WHERE {where} ORDER BY id")
        return [JobRow(int(row[0]), row[1], row[2], int(row[3]), int(row[4]), row[5]) for row in rows]

    def jobs_of(self, ids: Iterable[int]) -> list[JobRow]:
        """Return jobs by their ids."""
        return self.jobs(f"id IN ({', '.join(map(str, ids))})")

    def wait_for_state(self, ids: list[int], state: str, *, timeout_s: float) -> None:
        """Wait until all these jobs are in a state.

        Raises: AssertionError, which shows those that are not.
        """

        def others() -> list[JobRow]:
            return [job for job in self.jobs_of(ids) if job.state != state]

        try:
            wait_for(f"jobs {state}", lambda: not others(), timeout_s=timeout_s, every_s=2)
        except TimeoutError as late:
            shown = "\n  ".join(str(job) for job in others()[:10])
            raise AssertionError(f"{late} Not {state}:\n  {shown}") from late

    def wait_until_idle(self, timeout_s: float) -> None:
        """Wait until no job is left that could run or runs.

        Raises: AssertionError, which shows what is left.
        """
        left = f"state IN {LIVE} AND run_at < now() + interval '1 hour'"
        try:
            query = f"SELECT count(*) FROM tasks_job WHERE {left}"
            wait_for("The end of all jobs", lambda: self.count(query) == 0, timeout_s=timeout_s, every_s=3)
        except TimeoutError as late:
            shown = "\n  ".join(str(job) for job in self.jobs(left)[:10])
            raise AssertionError(f"{late} Left:\n  {shown}") from late

    def oldest_age_s(self) -> float:
        """Return for how long the oldest job that could run has been due."""
        query = "SELECT coalesce(extract(epoch FROM now() - min(run_at)), 0) FROM tasks_job"
        return float(self.sql(f"{query} WHERE state IN ('waiting', 'relayed') AND run_at <= now()")[0][0])

    # -- services --------------------------------------------------------------------------------
    def active(self, role: str) -> list[str]:
        """Return the running instances of a role."""
        return self.units(f"kit-{role}@*.service", "active")

    def units(self, pattern: str, state: str) -> list[str]:
        """Return the names of units in a state."""
        lines = self.machine.ssh(f"systemctl list-units --plain --no-legend --state={state} '{pattern}'")
        return [line.split()[0] for line in lines.splitlines()]

    def invocations(self) -> dict[str, str]:
        """Return for each service that runs what tells this run of it from another."""
        command = "systemctl show --property=Id,InvocationID,Type --state=active '*.service'"
        found = {}
        for block in self.machine.ssh(command).split("\n\n"):
            fields = dict(line.split("=", 1) for line in block.splitlines())
            if fields.get("Type") != "oneshot" and not fields["Id"].startswith(("user@", "user-runtime", "systemd-")):
                found[fields["Id"]] = fields["InvocationID"]
        return found

    def wait_until_whole(self, release: str | None = None, timeout_s: float = 120) -> None:
        """Wait until each role has exactly one running instance, of the release, and no unit has failed.

        Raises: AssertionError, which says what is missing.
        """
        try:
            wait_for("A whole kit", lambda: not self.what_is_wrong(release), timeout_s=timeout_s, every_s=2)
        except TimeoutError as late:
            raise AssertionError(f"{late} {'; '.join(self.what_is_wrong(release))}\n{self.journal()}") from late

    def what_is_wrong(self, release: str | None) -> list[str]:
        """Return what keeps the kit from being whole."""
        running = self.units("*.service", "active")
        wrong = [f"{unit} has failed" for unit in self.units("*", "failed")]
        for role in ROLES:
            mine = [unit for unit in running if unit.startswith(f"kit-{role}@")]
            if len(mine) != 1 or (release and mine != [f"kit-{role}@{release}.service"]):
                wrong.append(f"{role} runs as {', '.join(mine) or 'nothing'}, expected one of {release or 'a release'}")
        for name in ("redis", "postgresql@", "nginx"):
            if not any(unit.startswith(name) for unit in running):
                wrong.append(f"{name} does not run")
        return wrong

    def journal(self, lines: int = 40) -> str:
        """Return the last warnings of all units."""
        return self.machine.ssh(f"journalctl --no-pager -q -p warning -n {lines} -o short-precise")

    # -- resources -------------------------------------------------------------------------------
    def memory_mb(self) -> dict[str, int]:
        """Return the lines of /proc/meminfo. Units: MB."""
        lines = self.machine.ssh("cat /proc/meminfo").splitlines()
        return {line.split(":")[0]: int(line.split()[1]) // 1024 for line in lines}

    def oom_kills(self) -> int:
        """Return how many processes the kernel has killed for lack of memory since it was started."""
        return int(self.machine.ssh("grep ^oom_kill /proc/vmstat").split()[1])
