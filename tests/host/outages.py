"""Items 5 and 6: services are killed, the disk fills, the plug is pulled; everything comes back without a hand."""

import time
from collections.abc import Callable

from tests.host import faults
from tests.host.first_deploy import MAIL_S, told, wait_for_mails
from tests.host.guest import ROLES, JobRow
from tests.host.shell import say, wait_for
from tests.host.suite import Suite

BACK_S = 120
JOB_S = 20
MISCONF_S = 180
CUTS = {True: 1, False: 3}  # power cuts, by whether the run is short
SERVERS = ("redis*.service", "postgresql@*.service", "nginx.service")


def everything_comes_back(suite: Suite) -> None:
    """Kill, stop, starve and fill, one after another."""
    for check in (killed_services, stopped_worker, hungry_job, full_disk, unsaving_redis):
        started = time.monotonic()
        check(suite)
        say(f"  {check.__name__}: {time.monotonic() - started:.0f} s")


def killed_services(suite: Suite) -> None:
    """Kill every process of each service, then see that it answers again."""
    units = [unit for role in ROLES for unit in suite.guest.active(role)]
    units += [unit for name in SERVERS for unit in suite.guest.units(name, "active")]
    slowest = 0.0
    for unit in units:
        before = suite.guest.invocations().get(unit)
        suite.machine.ssh(f"systemctl kill --signal=KILL {unit}")
        started = time.monotonic()
        wait_for(
            f"{unit} after kill -9",
            lambda unit=unit, before=before: suite.guest.invocations().get(unit, before) != before,
            timeout_s=BACK_S,
            every_s=1,
        )
        slowest = max(slowest, time.monotonic() - started)
    suite.guest.wait_until_whole(timeout_s=BACK_S)
    site_works(suite)
    suite.found(f"kill -9 of {len(units)} services: each was back within {slowest:.0f} s")


def site_works(suite: Suite) -> None:
    """Let a new person sign up and get a mail."""
    person = suite.people(1)
    answer = wait_for("A signup", lambda: accepted(suite, person), timeout_s=BACK_S, every_s=1)
    assert answer, "No signup was accepted."
    wait_for_mails(suite, person, 1)


def accepted(suite: Suite, person: int) -> bool:
    """Tell whether a signup was accepted."""
    return suite.internet.sign_up(person).status == 202


def stopped_worker(suite: Suite) -> None:
    """Stop the worker in the middle of a job: it finishes it."""
    ids = suite.guest.enqueue("trial.sleep", seconds=JOB_S)
    suite.guest.wait_for_state(ids, "running", timeout_s=MAIL_S)
    unit = suite.guest.active("worker")[0]
    suite.machine.ssh(f"systemctl stop {unit}", timeout_s=JOB_S * 4)
    job = suite.guest.jobs_of(ids)[0]
    suite.machine.ssh(f"systemctl start {unit}", timeout_s=BACK_S)
    assert (job.state, job.attempts, job.run) == ("succeeded", 1, 1), f"A worker that was told to stop left {job}"
    suite.found(f"systemctl stop of the worker let its {JOB_S} s job finish")


def hungry_job(suite: Suite) -> None:
    """Let a job eat until the kernel ends it: the job beside it goes on."""
    sleeper = suite.guest.enqueue("trial.sleep", seconds=JOB_S)
    suite.guest.wait_for_state(sleeper, "running", timeout_s=MAIL_S)
    worker = suite.guest.invocations()[suite.guest.active("worker")[0]]
    hog = suite.guest.enqueue("trial.hog", max_attempts=1)
    suite.guest.wait_for_state(hog, "dead", timeout_s=BACK_S)
    suite.guest.wait_for_state(sleeper, "succeeded", timeout_s=BACK_S)
    neighbour, hungry = suite.guest.jobs_of(sleeper)[0], suite.guest.jobs_of(hog)[0]
    assert neighbour.attempts == 1, f"The job beside the hungry one suffered: {neighbour}"
    assert worker == suite.guest.invocations()[suite.guest.active("worker")[0]], "The whole worker was started anew."
    site_works(suite)
    suite.found(f"a job without end of memory: only it died ({hungry.history[-160:].strip('[]{}')})")


def full_disk(suite: Suite) -> None:
    """Fill the disk to the last block, and empty it: signups go on afterwards, and nothing needs a hand."""
    with faults.full_disk(suite.machine):
        answer = suite.internet.sign_up(suite.people(1))
        say(f"  a signup on a full disk got {answer.status}")
        assert answer.status in (202, 503, 500), f"A signup on a full disk got {told(answer)}"
    site_works(suite)
    suite.guest.wait_until_idle(BACK_S)
    suite.guest.wait_until_whole(timeout_s=BACK_S)
    suite.found("a full disk: everything went on once there was room again")


def unsaving_redis(suite: Suite) -> None:
    """Let Redis be unable to write for three minutes: signups are accepted, and their mails come later."""
    people: list[int] = []

    def one_more() -> None:
        people.append(suite.people(1))
        answer = suite.internet.sign_up(people[-1])
        assert answer.status == 202, f"A signup while Redis cannot save got {told(answer)}"

    with faults.redis_refusing_writes(suite.machine):
        ends = time.monotonic() + MISCONF_S
        wait_for("The outage", lambda: one_more() or time.monotonic() > ends, timeout_s=2 * MISCONF_S, every_s=10)
    for person in people:
        wait_for_mails(suite, person, 1)
    suite.guest.wait_until_whole(timeout_s=BACK_S)
    lost = [person for person in people if len(suite.internet.mails_to(person)) != 1]
    assert not lost, f"After Redis could not save for {MISCONF_S} s, people {lost} have not exactly one mail."
    suite.found(f"Redis that refuses every write for {MISCONF_S} s: {len(people)} signups accepted and mailed")


def plug_is_pulled(suite: Suite) -> None:
    """Reboot, and cut the power, with running, waiting and delayed jobs: all of them finish."""
    seconds = with_jobs_at_hand(suite, "a reboot", suite.machine.reboot)
    suite.found(f"a reboot: SSH answered after {seconds[0]:.0f} s, the kit was whole after {seconds[1]:.0f} s")
    for number in range(CUTS[suite.is_short]):
        seconds = with_jobs_at_hand(suite, f"power cut {number + 1}", lambda: cut(suite))
        suite.found(f"a power cut: SSH answered after {seconds[0]:.0f} s, the kit was whole after {seconds[1]:.0f} s")


def cut(suite: Suite) -> float:
    """Pull the plug and put it in again; return the seconds until SSH answers."""
    suite.machine.power_cut()
    started = time.monotonic()
    suite.machine.start()
    return time.monotonic() - started


def with_jobs_at_hand(suite: Suite, what: str, action: Callable[[], float]) -> tuple[float, float]:
    """Do something to the machine while jobs run, wait and are delayed, and see that all finish once.

    Units: returns the seconds until SSH answers, and until the kit is whole.
    """
    running = suite.guest.enqueue("trial.sleep", seconds=JOB_S)
    suite.guest.wait_for_state(running, "running", timeout_s=MAIL_S)
    others = suite.guest.enqueue("trial.sleep", seconds=2, count=5)
    others += suite.guest.enqueue("trial.sleep", seconds=1, count=2, delay_s=60)
    person = suite.people(1)
    answer = suite.internet.sign_up(person)
    assert answer.status == 202, f"Before {what}, a signup got {told(answer)}"
    started = time.monotonic()
    until_ssh = action()
    suite.guest.wait_until_whole(timeout_s=BACK_S)
    until_whole = time.monotonic() - started
    suite.guest.wait_for_state([*running, *others], "succeeded", timeout_s=300)
    wait_for_mails(suite, person, 1)
    site_works(suite)
    data_is_intact(suite, what)
    wrong = [job for job in suite.guest.jobs_of(others) if not is_fair(job)]
    assert not wrong, f"After {what}:\n  " + "\n  ".join(map(str, wrong))
    return until_ssh, until_whole


def is_fair(job: JobRow) -> bool:
    """Tell whether a job that could not be running when the machine went down succeeded with few attempts."""
    return job.state == "succeeded" and job.attempts <= 2


def data_is_intact(suite: Suite, what: str) -> None:
    """Ask PostgreSQL and Redis whether their data is whole."""
    check = "cd / && runuser -u postgres -- $(ls -d /usr/lib/postgresql/*/bin)/pg_amcheck --install-missing kit 2>&1"
    suite.machine.ssh(check, timeout_s=120)
    suite.guest.sql("DROP EXTENSION amcheck")  # no part of the kit, and of its backups
    loaded = faults.redis_admin(suite.machine)("INFO", "persistence")
    for sign in ("loading:0", "aof_enabled:1", "aof_last_write_status:ok", "aof_last_bgrewrite_status:ok"):
        assert sign in loaded, f"After {what}, Redis does not say {sign}: {loaded}"
