"""The unit files: what systemd says of them, and the rules between them and the settings."""

import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

import jinja2
import pytest
from django.conf import settings

from tasks.guardian import STUCK_S
from tests import services

pytestmark = pytest.mark.rung("sqlite+filesystem")  # nothing in it depends on database or broker

ROOT = Path(__file__).resolve().parent.parent
UNITS = ROOT / "deploy/systemd"
OTHERS = ("backup/*.service", "backup/*.timer", "base/*.service", "base/*.timer.j2", "base/*.slice", "base/*.swap")
OTHER_UNITS = sorted(file for pattern in OTHERS for file in (ROOT / "deploy").glob(pattern))
ROLES = ("web", "relay", "beat", "worker", "flower")
# The highest exposure that systemd may find; docs of hardening: U-01.
BOUNDS = {"web": 0.5, "beat": 0.5, "relay": 1.2, "worker": 1.2, "flower": 1.1}
PROGRAMS = ("srv/kit/releases/x/.venv/bin/python", "usr/local/lib/kit/stop-worker", "usr/bin/true")
PROGRAMS += ("usr/bin/python3", "usr/local/sbin/kit-upkeep")


def unit(role: str) -> str:
    """Return a role's unit."""
    return (UNITS / f"kit-{role}@.service").read_text()


def setting(role: str, name: str) -> str:
    """Return the last value of a setting."""
    return re.findall(rf"^{name}=(.*)$", unit(role).replace("\\\n", ""), re.MULTILINE)[-1]


@pytest.fixture
def root(tmp_path):
    """Give a root folder with the units, and stand-ins for the programs they start."""
    target = tmp_path / "etc/systemd/system"
    target.mkdir(parents=True)
    for file in [*UNITS.glob("*.service"), *UNITS.glob("*.socket")]:
        shutil.copy(file, target)
    for file in OTHER_UNITS:
        text = jinja2.Template(file.read_text()).render(kit_reboot_time="04:30")
        (target / file.name.removesuffix(".j2")).write_text(text)
    for program in PROGRAMS:
        path = tmp_path / program
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    return tmp_path


def analyze(*arguments: str) -> subprocess.CompletedProcess:
    """Run systemd-analyze."""
    command = [services.need("systemd-analyze", "systemd"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("name", [*(f"kit-{role}@x.service" for role in ROLES), "kit-web.socket", "kit-web.service"])
def test_systemd_finds_no_fault_in_the_units(root, name):
    verified = analyze("verify", f"--root={root}", "--man=no", "--recursive-errors=no", name)

    ours = [line for line in verified.stderr.splitlines() if "kit-" in line]
    assert (verified.returncode, ours) == (0, [])


@pytest.mark.parametrize("name", [file.name.removesuffix(".j2") for file in OTHER_UNITS])
def test_systemd_finds_no_fault_in_the_units_of_the_host_and_its_backups(root, name):
    verified = analyze("verify", f"--root={root}", "--man=no", "--recursive-errors=no", name)

    ours = [line for line in verified.stderr.splitlines() if "kit" in line or name in line]
    assert (verified.returncode, ours) == (0, [])


def test_worker_that_has_crashed_is_not_stopped(tmp_path):
    """systemd knows no main process then, and gives none."""
    (tmp_path / "systemctl").write_text("#!/bin/sh\necho stopping\n")
    (tmp_path / "systemctl").chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    told = subprocess.run(
        [UNITS / "stop-worker"], env=os.environ | path, capture_output=True, text=True, timeout=30, check=False
    )

    assert (told.returncode, told.stdout, told.stderr) == (0, "", "")


@pytest.mark.parametrize("role", ROLES)
def test_who_waits_for_the_network_wants_it(role):
    waited_for = re.findall(r"^After=.*\bnetwork-online\.target", unit(role), re.MULTILINE)

    assert not waited_for or "Wants=network-online.target" in unit(role).splitlines()


@pytest.mark.parametrize("role", ROLES)
def test_exposure_stays_in_its_bound(tmp_path, role):
    file = tmp_path / f"kit-{role}@x.service"
    file.write_text(unit(role))

    told = analyze("security", "--offline=true", "--no-pager", str(file)).stdout

    assert float(re.search(r"exposure level for \S+: ([\d.]+)", told)[1]) <= BOUNDS[role]


@pytest.mark.parametrize("role", ROLES)
def test_children_get_no_signal_and_a_long_outage_no_final_failure(role):
    """SIGTERM to a child of the pool would kill its job."""
    wanted = {"KillMode": "mixed", "Restart": "always", "StartLimitIntervalSec": "0", "OOMPolicy": "continue"}

    assert {name: setting(role, name) for name in wanted} == wanted


@pytest.mark.parametrize("role", ROLES)
def test_process_never_leads_through_current(role):
    """A lazy import of an old process would load new code."""
    lines = [line for line in unit(role).splitlines() if "/current" in line and not line.startswith("#")]

    assert lines == ["ConditionPathExists=|/srv/kit/current/.release-%i"]


def test_worker_has_time_for_its_longest_job():
    stop_s = int(setting("worker", "TimeoutStopSec"))
    options = setting("worker", "ExecStart")

    assert f"--time-limit={settings.CELERY_TASK_TIME_LIMIT} " in options
    assert f"--soft-time-limit={settings.CELERY_TASK_SOFT_TIME_LIMIT} " in options
    assert settings.CELERY_TASK_TIME_LIMIT <= settings.JOBS_DRAIN_S < stop_s
    assert stop_s < 3_600  # the visibility timeout


def test_watchdogs_are_more_patient_than_the_loops_they_watch():
    assert int(setting("worker", "WatchdogSec")) > STUCK_S
    assert int(setting("relay", "WatchdogSec")) > 60  # JOBS_POLL_S at most, and a step


@pytest.mark.parametrize("role", ROLES)
def test_secrets_are_handed_over_as_files_alone(role):
    """An environment is told to children, and by crashes."""
    given = re.findall(r"^Environment=(\w+)=%d/(\w+)$", unit(role), re.MULTILINE)
    handed = re.findall(r"^LoadCredential=(\w+):/etc/kit/secrets/", unit(role), re.MULTILINE)

    assert handed
    assert sorted(name for _, name in given) == sorted(handed)
    assert all(variable.endswith("_FILE") for variable, _ in given)


@pytest.mark.parametrize("role", ["relay", "beat", "flower"])
def test_only_who_signs_has_the_key(role):
    assert "/etc/kit/secrets/secret_key" not in unit(role)


def test_web_and_beat_have_no_network():
    assert [setting(role, "PrivateNetwork") for role in ("web", "beat")] == ["yes", "yes"]


@pytest.mark.parametrize(("state", "is_told"), [("running", False), ("degraded", False), ("stopping", True)])
def test_worker_is_hurried_only_when_the_host_goes_down(tmp_path, monkeypatch, state, is_told):
    """In a deploy systemd's own SIGTERM comes next, and the worker may take its time."""
    (tmp_path / "systemctl").write_text(f"#!/bin/sh\necho {state}\n[ {state} = running ]\n")
    (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with subprocess.Popen(["sleep", "60"]) as worker:
        reaper = threading.Thread(target=worker.wait)  # systemd does so for the worker
        reaper.start()

        subprocess.run([UNITS / "stop-worker", str(worker.pid)], check=True, timeout=20)

        assert (worker.poll() is not None) == is_told
        worker.kill()
        reaper.join()
