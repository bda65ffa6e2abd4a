"""Items 8 and 9: 1 GB is enough, and a job that burns the CPU leaves the site quick."""

from tests.host.shell import wait_for
from tests.host.suite import Suite
from tests.host.visitors import Answer, ask, p95_s

AVAILABLE_MB = 300
AFTER_BOOT_S = 300
REQUESTS = 100
BURNERS = 4


def memory_is_enough(suite: Suite) -> None:
    """Reboot, wait five minutes, and see how much memory is left."""
    suite.machine.reboot()
    suite.guest.wait_until_whole()
    wait_for("Five minutes after boot", lambda: uptime_s(suite) > AFTER_BOOT_S, timeout_s=AFTER_BOOT_S + 60, every_s=5)
    memory = suite.guest.memory_mb()
    swapped = memory["SwapTotal"] - memory["SwapFree"]
    said = f"{memory['MemAvailable']} of {memory['MemTotal']} MB available, {swapped} MB swapped"
    assert memory["MemAvailable"] >= AVAILABLE_MB, f"Five minutes after boot: {said}; {AVAILABLE_MB} MB are promised."
    assert swapped == 0, f"Five minutes after boot: {said}; no swap should be used."
    suite.found(f"five minutes after boot: {said}")


def uptime_s(suite: Suite) -> float:
    """Return for how long the machine has been up."""
    return float(suite.machine.ssh("cat /proc/uptime").split()[0])


def burning_jobs_leave_the_site_quick(suite: Suite) -> None:
    """Compare the site's answers on an idle machine with those while jobs take all the CPU they can get."""
    idle = p95_s(open_pages(suite))
    ids = suite.guest.enqueue("trial.burn", count=BURNERS, seconds=120)
    wait_for(
        "Burning jobs", lambda: any(job.state == "running" for job in suite.guest.jobs_of(ids)), timeout_s=60, every_s=1
    )
    burning = p95_s(open_pages(suite))
    still = [job for job in suite.guest.jobs_of(ids) if job.state == "running"]
    assert still, "The jobs had burnt out before the site was measured."
    said = f"the site's p95 is {idle * 1000:.0f} ms idle and {burning * 1000:.0f} ms beside {len(still)} burning jobs"
    assert burning <= 2 * idle, f"{said}: more than twice as long."
    suite.found(said)
    suite.guest.wait_until_idle(600)


def open_pages(suite: Suite) -> list[Answer]:
    """Return the answers to people who open the signup page one after another."""
    trust, address = suite.internet.trust(), suite.machine.address
    with suite.machine.network.pool(1) as pool:
        asked = [pool.submit(ask, address, trust, "GET", "/", visitor=number) for number in range(REQUESTS)]
        answers = [request.result() for request in asked]
    failed = [answer for answer in answers if answer.status != 200]
    assert not failed, f"{len(failed)} of {REQUESTS} pages failed, e.g. {failed[0].status} {failed[0].body[:200]}"
    return answers
