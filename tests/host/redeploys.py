"""Items 3 and 4: a redeploy under load loses nothing, and a bad release never serves."""

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from tests.host.first_deploy import told
from tests.host.guest import JobRow
from tests.host.shell import crowding, say, wait_for
from tests.host.suite import Suite
from tests.host.visitors import Answer, Crowd, address_of, p95_s

PACE = 5  # signups a second
RUNNING_S = 20
LOOK_S = 10
OLDEST_AGE_S = 60
LOAD_S = {True: 60, False: 180}  # at least; by whether the run is short
DRAIN_S = 300
BROKEN_START = 'raise RuntimeError("This release does not start, on purpose.")\n'
MIGRATION = '''"""Fails, on purpose."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("signup", "{before}")]
    operations = [migrations.RunSQL("SELECT 1 / 0", migrations.RunSQL.noop){mark}]
'''


def redeploy_under_load_loses_nothing(suite: Suite) -> None:
    """Deploy a new commit while people sign up and long jobs run."""
    release = suite.site.commit("trial: Say something else.", {"project/trial/words.py": f"WORDS = {time.time()}\n"})
    before = suite.guest.oom_kills()
    with Load(suite) as load:
        outcome = suite.site.make("deploy")
        load.go_on(LOAD_S[suite.is_short] - outcome.seconds)
    assert outcome.code == 0, f"The redeploy ended with {outcome.code}:\n{outcome.end}"
    suite.guest.wait_until_whole(release, timeout_s=DRAIN_S)
    kills = suite.guest.oom_kills() - before
    assert kills == 0, f"The kernel killed {kills} processes for lack of memory during the redeploy."
    load.check()
    suite.found(f"a redeploy of {outcome.seconds:.0f} s under {PACE} signups/s and {RUNNING_S} s jobs: {load.summary}")


class Load:
    """People who sign up, and a long job that always runs, while the block runs; afterwards, what came of them."""

    def __init__(self, suite: Suite):
        self.suite = suite
        self.crowd = Crowd(suite.internet, first=suite.people(10_000), pace=PACE)
        self.sleepers: list[int] = []
        self.oldest_s = 0.0
        self.summary = ""
        self._ends = threading.Event()
        self._pool = ThreadPoolExecutor(1)

    def __enter__(self) -> "Load":
        self.crowd.__enter__()
        self._looking = self._pool.submit(self._keep_looking)
        return self

    def __exit__(self, *exception: object) -> None:
        self.crowd.__exit__()
        self._ends.set()
        self._pool.shutdown()

    def _keep_looking(self) -> None:
        """Keep a long job running, and remember the oldest age."""
        while True:
            ids = ", ".join(map(str, self.sleepers)) or "0"
            live = f"SELECT count(*) FROM tasks_job WHERE id IN ({ids}) AND finished_at IS NULL"
            if self.suite.guest.count(live) == 0:
                self.sleepers += self.suite.guest.enqueue("trial.sleep", seconds=RUNNING_S)
            self.oldest_s = max(self.oldest_s, self.suite.guest.oldest_age_s())
            if self._ends.wait(LOOK_S):
                return

    def go_on(self, seconds: float) -> None:
        """Let the load go on for so long."""
        self._ends.wait(max(0, seconds))

    def check(self) -> None:
        """Compare answers, rows and mails: none failed, none lost, none twice, none charged."""
        self._looking.result()  # its errors, too
        answers = self.crowd.answers()
        failed = {person: answer for person, answer in answers.items() if answer.status != 202}
        shown = "\n  ".join(f"person {person}: {told(answer)}" for person, answer in list(failed.items())[:5])
        assert not failed, f"{len(failed)} of {len(answers)} signups failed:\n  {shown}"
        self.suite.guest.wait_until_idle(DRAIN_S)
        check_each_was_mailed_once(self.suite, answers)
        self.check_sleepers()
        bound_s = OLDEST_AGE_S * crowding()
        assert self.oldest_s < bound_s, f"A job was due for {self.oldest_s:.0f} s, the bound is {bound_s:.0f}."
        times = f"p95 {p95_s(list(answers.values())):.2f} s, longest {max(a.seconds for a in answers.values()):.2f} s"
        self.summary = f"{len(answers)} signups, 0 failed, 0 lost, 0 twice, {times}; oldest age {self.oldest_s:.0f} s"

    def check_sleepers(self) -> None:
        """Compare the long jobs' rows."""
        wrong = [job for job in self.suite.guest.jobs_of(self.sleepers) if not ran_once(job)]
        assert not wrong, "Long jobs were lost, run twice or charged:\n  " + "\n  ".join(map(str, wrong))


def ran_once(job: JobRow) -> bool:
    """Tell whether a job succeeded in its first run."""
    return (job.state, job.run, job.attempts, job.history) == ("succeeded", 1, 1, "[]")


def check_each_was_mailed_once(suite: Suite, answers: dict[int, Answer]) -> None:
    """Compare users, jobs and mails with the people whose signup was accepted."""
    addresses = {address_of(person) for person, answer in answers.items() if answer.status == 202}
    known = {row[0] for row in suite.guest.sql("SELECT email FROM accounts_user")}
    assert addresses <= known, f"{len(addresses - known)} people were told 202 and are in no table."
    mails = suite.internet.mail_counts()
    lost = [address for address in addresses if not mails[address]]
    assert not lost, f"{len(lost)} of {len(addresses)} people got no mail, e.g. {lost[:3]}."
    twice = Counter({address: mails[address] for address in addresses if mails[address] > 1})
    assert not twice, f"{len(twice)} of {len(addresses)} people got more than one mail, e.g. {twice.most_common(3)}."
    charged = suite.guest.jobs("kind = 'signup.confirmation_email' AND (attempts <> 1 OR state <> 'succeeded')")
    assert not charged, "Mail jobs were charged or did not succeed:\n  " + "\n  ".join(map(str, charged[:5]))


def bad_releases_never_serve(suite: Suite) -> None:
    """Deploy a release that does not start and one whose migration fails; roll back, twice."""
    refused(suite, "does not start", {"project/wsgi.py": BROKEN_START})
    refused(suite, "cannot migrate", {"project/signup/migrations/9000_broken.py": broken_migration(suite)}, "migrat")
    suite.site.must_make("deploy")  # a third good one, so that there are two to go back to
    releases = [suite.site.head()]
    for _ in range(2):
        suite.guest.wait_until_whole(releases[-1], timeout_s=DRAIN_S)
        suite.site.must_make("rollback")
        releases.append(successor_of(suite, releases[-1]))
    suite.guest.wait_until_whole(releases[-1], timeout_s=DRAIN_S)
    suite.found(f"make rollback, twice: {' -> '.join(releases)}")
    suite.site.must_make("deploy")
    suite.guest.wait_until_whole(suite.site.head(), timeout_s=DRAIN_S)


def successor_of(suite: Suite, release: str) -> str:
    """Return the release that has taken over from another."""
    return wait_for(
        f"Another release than {release}",
        lambda: next((name for name in serving(suite) if name != release), ""),
        timeout_s=DRAIN_S,
    )


def serving(suite: Suite) -> list[str]:
    """Return the releases that serve."""
    return [unit.partition("@")[2].removesuffix(".service") for unit in suite.guest.active("web")]


def broken_migration(suite: Suite) -> str:
    """Return a migration that fails when it runs."""
    folder = suite.site.clone / "project/signup/migrations"
    newest = sorted(file.stem for file in folder.glob("0*.py"))[-1]
    return MIGRATION.format(before=newest, mark="")


def refused(suite: Suite, what: str, files: dict[str, str], word: str = "") -> None:
    """Deploy a bad release while people look at the site: it must fail in words, and nobody may notice."""
    good = serving(suite)
    bad = suite.site.commit(f"trial: A release that {what}.", files)
    try:
        with Crowd(suite.internet, first=suite.people(10_000), pace=1) as crowd:
            outcome = suite.site.make("deploy", "ARGS=-e app_allow_unsafe_migration=true")
        failed = [answer for answer in crowd.answers().values() if answer.status != 202]
    finally:
        suite.site.take_back()
    assert outcome.code, f"The deploy of a release that {what} ended with 0:\n{outcome.end}"
    assert bad in outcome.text and word in outcome.text, f"The deploy does not say what failed:\n{outcome.end}"
    assert serving(suite) == good, f"After a release that {what}, {serving(suite)} serve, not {good}."
    assert not failed, f"{len(failed)} people noticed a release that {what}: {told(failed[0])}"
    say(f"  refused: a release that {what}")
    suite.found(f"a release that {what} was refused after {outcome.seconds:.0f} s, and nobody noticed")
