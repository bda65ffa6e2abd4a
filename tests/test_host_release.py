"""`kit release`: the new release proves itself beside the old one, or leaves it as it was."""

import contextlib
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.host import build, check, database, health, main, prune, release, takeover, venv
from deploy.host.errors import KitError
from tests.fake_host import FakeHost, run_kit
from tests.kit import wait_until

pytestmark = pytest.mark.rung("sqlite+filesystem")  # nothing in it depends on database or broker

ONE, TWO, THREE, FOUR = "1" * 12, "2" * 12, "3" * 12, "4" * 12


@pytest.fixture
def host(monkeypatch):
    """Give a bare host with short waits for what does not come."""
    monkeypatch.setattr(health, "ANSWER_LIMIT_S", 1)
    with tempfile.TemporaryDirectory(prefix="kit-host-") as folder, listening() as port:
        made = FakeHost(Path(folder), monkeypatch)
        (made.layout.config / "flower.env").write_text(f'FLOWER_PORT="{port}"\n')
        yield made
        made.site.close()


@contextlib.contextmanager
def listening() -> Iterator[int]:
    """Listen on a free port, as Flower does, and give it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def deploy(host: FakeHost, name: str, **options) -> None:
    """Release a name from its archive."""
    release.release(host.layout, name, host.archive(name), **{"allow_unsafe": False} | options)


def audit(host: FakeHost) -> str:
    """Return the last line of the audit log."""
    return host.layout.audit_log.read_text().splitlines()[-1]


def test_first_release_serves(host):
    deploy(host, ONE)

    assert host.serves(ONE)
    assert f"release from None to {ONE}; done" in audit(host)
    assert (host.layout.static / f"site.{ONE}.css").exists()


def test_next_release_starts_beside_the_old_one_which_then_stops(host):
    deploy(host, ONE)
    begun = len(host.calls)

    deploy(host, TWO)

    calls = [call for call in host.calls[begun:] if call.split()[0] in ("start", "stop")]
    started = next(at for at, call in enumerate(calls) if call.startswith("start") and f"kit-web@{TWO}" in call)
    stopped = next(at for at, call in enumerate(calls) if call.startswith("stop") and f"kit-web@{ONE}" in call)
    assert started < stopped
    assert f"stop --no-block kit-worker@{ONE}.service" in calls
    assert host.serves(TWO)


def test_same_release_again_changes_nothing(host, capsys):
    deploy(host, ONE)
    begun = len(host.calls)
    capsys.readouterr()

    release.release(host.layout, ONE, None, allow_unsafe=False)

    assert capsys.readouterr().out.strip() == release.UNCHANGED
    assert not [call for call in host.calls[begun:] if call.split()[0] in ("start", "restart", "enable", "disable")]


def test_changed_settings_restart_only_whom_they_concern(host):
    deploy(host, ONE)
    begun = len(host.calls)
    (host.layout.config / "relay.env").write_text('DATABASE_URL="postgresql://"\nLOG_LEVEL="DEBUG"\n')

    release.release(host.layout, ONE, None, allow_unsafe=False)

    restarts = [call for call in host.calls[begun:] if call.startswith("restart")]
    assert restarts == [f"restart kit-relay@{ONE}.service"]


def test_settings_that_are_refused_restart_nothing(host):
    deploy(host, ONE)
    begun = len(host.calls)
    (host.layout.config / "kit.env").write_text('ALLOWED_HOSTS=""\n')
    host.fail("check", "ENVIRONMENT=production does not start: ALLOWED_HOSTS is empty.")

    with pytest.raises(KitError, match="The settings are refused: .*ALLOWED_HOSTS is empty"):
        release.release(host.layout, ONE, None, allow_unsafe=False)

    assert host.serves(ONE)
    assert not [call for call in host.calls[begun:] if call.split()[0] in ("start", "restart")]


def test_settings_are_looked_at_before_they_are_in_place(host):
    deploy(host, ONE)
    file = host.stage / "kit.env"
    file.write_text('ALLOWED_HOSTS=""\n')

    check.candidate(host.layout, file)
    host.fail("check", "ALLOWED_HOSTS is empty.")
    with pytest.raises(KitError, match="The settings are refused: ALLOWED_HOSTS is empty"):
        check.candidate(host.layout, file)

    options = (host.stage / "options").read_text().splitlines()
    assert f"--property=EnvironmentFile={file}" in options


def test_flower_that_is_not_wanted_any_more_is_stopped(host, capsys):
    deploy(host, ONE)
    (host.layout.config / "flower.env").unlink()
    capsys.readouterr()

    release.release(host.layout, ONE, None, allow_unsafe=False)

    flower = {host.layout.unit("flower", ONE)}
    assert host.active == host.enabled == host.units(ONE) - flower
    assert capsys.readouterr().out.strip() != release.UNCHANGED
    release.release(host.layout, ONE, None, allow_unsafe=False)
    assert capsys.readouterr().out.strip() == release.UNCHANGED


def test_flower_that_is_not_wanted_any_more_goes_with_its_release(host):
    deploy(host, ONE)
    (host.layout.config / "flower.env").unlink()

    deploy(host, TWO)

    assert host.active == host.enabled == host.units(TWO) - {host.layout.unit("flower", TWO)}


def test_changed_secret_restarts_whom_it_is_handed_to(host):
    secret = host.layout.config / "secrets/key"
    secret.write_text("old")
    (host.layout.units / "kit-beat@.service").write_text("[Service]\nLoadCredential=key:/etc/kit/secrets/key\n")
    deploy(host, ONE)
    begun = len(host.calls)
    secret.write_text("new")

    release.release(host.layout, ONE, None, allow_unsafe=False)

    restarts = [call for call in host.calls[begun:] if call.startswith("restart")]
    assert restarts == [f"restart kit-beat@{ONE}.service"]


@pytest.mark.parametrize("role", ["web", "relay", "worker", "beat", "flower"])
def test_release_whose_process_does_not_start_leaves_the_old_one_serving(host, role):
    deploy(host, ONE)
    host.break_unit(host.layout.unit(role, TWO))

    with pytest.raises(KitError, match=f"kit-{role}@{TWO}.service did not start"):
        deploy(host, TWO)

    assert host.serves(ONE)
    assert not [call for call in host.calls if call.startswith("stop") and f"kit-web@{ONE}" in call]
    assert f"failed: kit-{role}@{TWO}.service did not start" in audit(host)


@pytest.mark.parametrize(
    ("question", "sentence"),
    [("prepare", "The release is refused: no such column"), ("migrate", "A migration failed: no such column")],
)
def test_release_that_manage_py_refuses_is_not_started(host, question, sentence):
    deploy(host, ONE)
    host.answer("prepare", {"migrations": ["signup.0009_more"], "faults": []})
    host.fail(question, "Traceback\nno such column")

    with pytest.raises(KitError, match=sentence):
        deploy(host, TWO)

    assert host.serves(ONE)
    assert not [call for call in host.calls if call.startswith("start") and TWO in call]


def test_release_that_fails_the_smoke_test_leaves_the_old_one_serving(host):
    deploy(host, ONE)
    host.answer("smoke", {"fault": "job 7 is waiting after 60 s"})

    with pytest.raises(KitError, match="The smoke test failed: job 7 is waiting after 60 s"):
        deploy(host, TWO)

    assert host.serves(ONE)


def test_release_is_put_back_though_the_old_one_had_a_process_down(host):
    """That is often the reason for the deploy."""
    deploy(host, ONE)
    down = host.layout.unit("web", ONE)
    host.break_unit(down)
    (host.stage / "active" / down).unlink()
    host.answer("smoke", {"fault": "job 7 is waiting after 60 s"})

    with pytest.raises(KitError, match=f"job 7 is waiting after 60 s. Besides, .*{down} did not start"):
        deploy(host, TWO)

    assert host.active == host.units(ONE) - {down}
    assert (host.enabled, host.layout.current_release()) == (host.units(ONE), ONE)


def test_release_is_put_back_though_nobody_listens_any_more(host, monkeypatch):
    deploy(host, ONE)
    host.answer("smoke", {"fault": "job 7 is waiting after 60 s"})
    reader, writer = os.pipe()
    os.close(reader)

    with os.fdopen(writer, "w") as gone, pytest.raises(KitError, match="job 7 is waiting"):
        monkeypatch.setattr(sys, "stdout", gone)
        deploy(host, TWO)

    assert host.serves(ONE)


def test_worker_that_is_busy_with_other_jobs_holds_up_no_release(host, capsys):
    deploy(host, ONE)
    (host.stage / f"shown-{host.layout.unit('worker', TWO)}").write_text("MainPID=77\n")
    host.answer("smoke", {"fault": "job 7 is waiting after 60 s", "busy": ["kit:66:a", "kit:77:b"]})

    deploy(host, TWO)

    assert host.serves(TWO)
    assert "all its processes are busy (job 7 is waiting after 60 s)" in capsys.readouterr().out


def test_worker_of_another_release_proves_nothing(host):
    deploy(host, ONE)
    (host.stage / f"shown-{host.layout.unit('worker', TWO)}").write_text("MainPID=77\n")
    host.answer("smoke", {"fault": "job 7 is waiting after 60 s", "busy": ["kit:66:a"]})

    with pytest.raises(KitError, match="The smoke test failed"):
        deploy(host, TWO)

    assert host.serves(ONE)


def test_pause_of_the_smoke_test_holds_up_no_release(host, capsys):
    host.answer("smoke", {"fault": "", "is_paused": True})

    deploy(host, ONE)

    assert host.serves(ONE)
    assert "left out: a person has paused" in capsys.readouterr().out


def test_failed_first_release_leaves_nothing_running(host):
    host.break_unit(host.layout.unit("worker", ONE))

    with pytest.raises(KitError):
        deploy(host, ONE)

    assert (host.active, host.enabled, host.layout.current_release()) == (set(), set(), None)


def test_migration_that_may_break_the_running_code_is_refused(host):
    deploy(host, ONE)
    host.answer("prepare", {"migrations": ["a.0002"], "faults": ["a.0002: Remove field x: the old code reads it."]})

    with pytest.raises(KitError, match="may break the code that still runs .*Remove field x"):
        deploy(host, TWO)

    assert host.serves(ONE)


def test_refused_migration_may_be_allowed_and_is_noted(host):
    deploy(host, ONE)
    host.answer("prepare", {"migrations": ["a.0002"], "faults": ["a.0002: Remove field x: the old code reads it."]})

    deploy(host, TWO, allow_unsafe=True)

    assert host.serves(TWO)
    assert audit(host).endswith("unsafe migration allowed")
    assert (host.layout.dumps / f"before-{TWO}.dump").read_text() == "dumped\n"


def test_dumps_of_the_last_three_releases_are_kept(host):
    deploy(host, ONE)
    host.answer("prepare", {"migrations": ["a.0002"], "faults": []})

    for digit in "23456":
        deploy(host, digit * 12)

    assert len(list(host.layout.dumps.iterdir())) == database.KEPT_DUMPS


def test_rollback_goes_back_one_release_each_time_and_then_says_that_there_is_none(host):
    for name in (ONE, TWO, THREE):
        deploy(host, name)

    release.rollback(host.layout, None)
    assert host.serves(TWO)
    release.rollback(host.layout, None)
    assert host.serves(ONE)

    with pytest.raises(KitError, match="none to go back to"):
        release.rollback(host.layout, None)
    assert host.serves(ONE)


def test_release_after_a_rollback_goes_back_to_what_served_before(host):
    for name in (ONE, TWO):
        deploy(host, name)
    release.rollback(host.layout, None)

    deploy(host, THREE)
    release.rollback(host.layout, None)

    assert host.serves(ONE)


def test_rollback_past_a_release_never_leads_to_that_one_again(host):
    for name in (ONE, TWO, THREE):
        deploy(host, name)
    release.rollback(host.layout, ONE)

    deploy(host, FOUR)
    release.rollback(host.layout, None)

    assert host.serves(ONE)


def test_release_that_a_power_cut_left_without_its_note_is_gone_back_to(host):
    for name in (ONE, TWO):
        deploy(host, name)
    (host.layout.releases / TWO / prune.ACTIVATED).unlink()

    deploy(host, THREE)
    release.rollback(host.layout, None)

    assert host.serves(TWO)


def test_rollback_from_a_release_without_its_note_is_possible(host):
    for name in (ONE, TWO):
        deploy(host, name)
    (host.layout.releases / TWO / prune.ACTIVATED).unlink()

    release.rollback(host.layout, None)

    assert host.serves(ONE)


def test_five_releases_are_kept_with_what_they_need(host):
    names = [digit * 12 for digit in "1234567"]
    for name in names:
        deploy(host, name)

    assert {folder.name for folder in host.layout.releases.iterdir()} == set(names[-prune.KEPT :])
    assert len(list(host.layout.venvs.iterdir())) == 1
    assert len([file for file in host.layout.static.iterdir() if file.suffix == ".css"]) == prune.KEPT


def test_release_whose_worker_still_drains_is_kept(host):
    host.let_drain(host.layout.unit("worker", ONE))
    for digit in "1234567":
        deploy(host, digit * 12)

    assert (host.layout.releases / ONE).exists()


def test_what_a_killed_deploy_left_is_cleared_up(host):
    deploy(host, ONE)
    (host.layout.releases / f".building-{TWO}").mkdir()
    (host.layout.venvs / ".building-x").mkdir()
    host.layout.starting(TWO).touch()
    for role in ("web", "worker"):  # killed between start and switch
        (host.stage / "active" / host.layout.unit(role, TWO)).touch()

    deploy(host, THREE)

    assert host.serves(THREE)
    left = [*host.layout.releases.glob(".*"), *host.layout.venvs.glob(".*"), *host.layout.run.glob("starting-*")]
    assert left == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_interrupted_release_puts_the_old_one_back(host, number):
    deploy(host, ONE)
    host.answer("smoke", {"fault": ""})
    (host.stage / "fails-smoke").unlink(missing_ok=True)
    python = next(host.layout.venvs.glob("*/bin/python"))
    archive = host.archive(TWO)
    python.write_text(python.read_text().replace("shift\n", 'shift\n[ "$2" = smoke ] && sleep 30\n', 1))
    code = (
        f"from deploy.host import release\nrelease.release(layout, {TWO!r}, Path({str(archive)!r}), allow_unsafe=False)"
    )
    running = run_kit(host, code)
    wait_until(lambda: host.layout.unit("worker", TWO) in host.active, 20, "the new release starts")

    running.send_signal(number)
    _, told = running.communicate(timeout=30)

    assert running.returncode == 1 and f"Interrupted by {number.name}." in told
    assert host.serves(ONE)


def test_manage_py_is_for_people_too(host):
    """A new site has no account yet: `kit manage createsuperuser` on the server makes the first."""
    deploy(host, ONE)
    host.answer("createsuperuser", {"made": "me@example.com"})
    (host.stage / "options").unlink()
    arguments = ["manage", "createsuperuser", "--email", "me@example.com"]

    given = main.parser().parse_args(arguments).arguments

    code = f"from deploy.host import django\ndjango.become(layout, {ONE!r}, {given!r}, is_terminal=False)"
    running = run_kit(host, code)
    _, told = running.communicate(timeout=30)

    assert (running.returncode, told) == (0, "")
    asked = (host.stage / "asked").read_text().splitlines()
    assert asked[-1] == f"{ONE} createsuperuser --email me@example.com"
    options = (host.stage / "options").read_text().splitlines()
    assert {"--pipe", "--property=User=kit-owner", "--property=ProtectSystem=strict"} <= set(options)
    assert f"--property=EnvironmentFile={host.layout.config}/owner.env" in options


def test_second_deploy_is_refused_while_one_runs(host):
    body = "print(file=sys.stderr, flush=True); input()"
    code = f"import sys; from deploy.host.guard import alone\nwith alone(layout): {body}"
    running = run_kit(host, code)
    running.stderr.readline()

    with pytest.raises(KitError, match=f"Another deploy runs here .pid {running.pid}."):
        deploy(host, ONE)

    running.kill()
    running.wait()
    deploy(host, ONE)
    assert host.serves(ONE)


def test_archive_that_is_none_is_refused_in_words(host):
    deploy(host, ONE)
    archive = host.archive(TWO)
    archive.write_text("not a tar")

    with pytest.raises(KitError, match=f"The archive of {TWO} cannot be unpacked"):
        release.release(host.layout, TWO, archive, allow_unsafe=False)

    assert host.serves(ONE)
    assert not (host.layout.releases / TWO).exists()


def test_name_that_is_no_commit_is_refused(host):
    with pytest.raises(KitError, match="give the first 12 hex digits"):
        release.release(host.layout, "../../etc", None, allow_unsafe=False)


def test_full_disk_is_told_before_anything_is_built(host, monkeypatch):
    monkeypatch.setattr(build, "NEEDED_BYTES", 10**18)

    with pytest.raises(KitError, match="MB are free on the disk"):
        deploy(host, ONE)


def test_disk_that_a_dump_may_fill_is_told_before_it_is_dumped(host, monkeypatch):
    deploy(host, ONE)
    host.answer("prepare", {"migrations": ["a.0002"], "faults": []})
    monkeypatch.setattr(database, "SPARE_BYTES", 10**18)

    with pytest.raises(KitError, match="MB are free on the disk, .* for a dump before the migrations"):
        deploy(host, TWO)

    assert host.serves(ONE)
    assert list(host.layout.dumps.glob("*")) == []


def test_archives_of_failed_releases_do_not_stay(host):
    left = host.layout.home / f"{TWO}.tar"
    left.touch()

    deploy(host, ONE)

    assert not left.exists()


def test_environment_that_was_not_finished_never_has_its_name(host):
    requirements = host.stage / "requirements.txt"
    requirements.write_text("no-such-package-of-ours==1 --hash=sha256:00\n")

    with pytest.raises(KitError, match="The dependencies were not installed"):
        venv.ensure(host.layout, requirements)

    assert not (host.layout.venvs / venv.name_for(requirements)).exists()


def test_scripts_of_an_environment_name_the_folder_they_end_in(host):
    building = host.layout.venvs / ".building-x"
    (building / "bin").mkdir(parents=True)
    (building / "bin/celery").write_text(f"#!{building}/bin/python\n")

    venv.move(building, host.layout.venvs / "x")

    assert (host.layout.venvs / "x/bin/celery").read_text() == f"#!{host.layout.venvs}/x/bin/python\n"


def test_folder_is_on_the_disk_before_it_has_its_name(host):
    """After a power cut a name may be there, and the files in it empty."""
    deploy(host, ONE)
    building = host.layout.venvs / ".building-x"
    (building / "bin").mkdir(parents=True)

    venv.move(building, host.layout.venvs / "x")

    release_line, _, venv_line, _ = (host.stage / "synced").read_text().splitlines()
    assert release_line == f"sync {host.layout.releases}/.building-{ONE}; there are "
    assert venv_line.startswith(f"sync {building}; ") and not venv_line.endswith(" x ")


def test_power_cut_before_the_switch_leaves_boot_with_one_release(host):
    """Units of both may be enabled then; each looks whether `current` leads to its own release."""
    deploy(host, ONE)
    build.ensure(host.layout, TWO, host.archive(TWO))
    takeover.begin(host.layout, TWO)

    starts = [name for name in (ONE, TWO) if (host.layout.current / f".release-{name}").exists()]

    assert starts == [ONE]


def test_nothing_is_released_onto_a_half_restored_database(host):
    host.layout.restoring.parent.mkdir(parents=True)
    host.layout.restoring.write_text("begun\n")

    with pytest.raises(KitError, match="run `make restore` again"):
        deploy(host, ONE)
    assert host.active == set()

    host.layout.restoring.write_text("data\n")
    deploy(host, ONE)
    assert host.serves(ONE)
    assert not host.layout.restoring.exists()
