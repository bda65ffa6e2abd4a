"""Settings from the environment: what production refuses, what nonsense is told, what env.example promises."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from project import production

ROOT = Path(__file__).resolve().parent.parent
SOUND = {
    "ENVIRONMENT": "production",
    "SECRET_KEY": "k3y-" + "".join(chr(97 + number % 26) for number in range(0, 180, 3)),
    "ALLOWED_HOSTS": "kit.example.com",
    "SITE_URL": "https://kit.example.com",
}


@pytest.fixture
def start(tmp_path):
    """Return a function that starts the site's check command in a given environment."""

    def run(*arguments: str, **env: str) -> subprocess.CompletedProcess:
        clean = {"PATH": os.environ["PATH"], "DATA_DIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "project.settings"}
        command = [sys.executable, "manage.py", "check", *arguments]
        return subprocess.run(command, cwd=ROOT, env=clean | env, capture_output=True, text=True, timeout=60)

    return run


def test_demo_starts_without_any_variable(start):
    assert start().returncode == 0


def test_production_passes_the_deploy_check_without_a_warning(start):
    checked = start("--deploy", "--fail-level=WARNING", **SOUND)

    assert checked.returncode == 0, checked.stderr
    assert "no issues" in checked.stdout


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"DEBUG": "1"}, "DEBUG is on"),
        ({"SECRET_KEY": ""}, "SECRET_KEY is the demo's or shorter than 50 characters"),
        ({"SECRET_KEY": "short"}, "SECRET_KEY is the demo's or shorter than 50 characters"),
        ({"ALLOWED_HOSTS": ""}, "ALLOWED_HOSTS must name the site's hosts"),
        ({"ALLOWED_HOSTS": "kit.example.com,*"}, "ALLOWED_HOSTS must name the site's hosts"),
    ],
)
def test_production_refuses_what_is_unsafe(start, change, sentence):
    refused = start(**SOUND | change)

    assert refused.returncode != 0
    assert sentence in refused.stderr


def test_production_names_everything_it_refuses_at_once(start):
    refused = start(ENVIRONMENT="production", DEBUG="1")

    assert all(name in refused.stderr for name in ("DEBUG is on", "SECRET_KEY is", "ALLOWED_HOSTS must"))


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("ENVIRONMENT", "staging", "ENVIRONMENT is 'staging'; set it to one of: demo, production."),
        ("DEBUG", "maybe", "DEBUG is 'maybe'; set it to 1 or 0."),
        ("EMAIL_PORT", "smtp", "EMAIL_PORT is 'smtp'; set it to a whole number from 1 to 65535."),
        ("JOBS_HIGH_WATER", "0", "JOBS_HIGH_WATER is '0'; set it to a whole number from 1 to 10000."),
        ("LOG_LEVEL", "loud", "LOG_LEVEL is 'loud'; set it to one of: DEBUG, INFO, WARNING, ERROR."),
    ],
)
def test_nonsense_stops_the_start_with_variable_value_and_fix(start, variable, value, sentence):
    refused = start(**{variable: value})

    assert refused.returncode != 0
    assert sentence in refused.stderr


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/export /srv nfs4 rw 0 0
/dev/sdb1 /srv/local\\040disk ext4 rw 0 0
host /home/me/far fuse.sshfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "fs_type"),
    [
        ("/var/lib/kit", "ext4"),
        ("/srv", "nfs4"),
        ("/srv/kit/data", "nfs4"),
        ("/srv2", "ext4"),
        ("/srv/local disk/kit", "ext4"),
        ("/home/me/far/kit", "fuse.sshfs"),
    ],
)
def test_longest_mount_point_decides_the_file_system(path, fs_type):
    assert production.file_system_type(Path(path), MOUNTS) == fs_type


@pytest.mark.parametrize(("folder", "is_refused"), [("/srv/kit", True), ("/home/me/far", True), ("/opt/kit", False)])
def test_sqlite_on_a_network_file_system_is_refused(folder, is_refused):
    sqlite = {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{folder}/db.sqlite3"}
    settings = {"DEBUG": False, "SECRET_KEY": "k" * 50, "ALLOWED_HOSTS": ["kit.example.com"]}

    found = production.refusals(settings | {"DATABASES": {"default": sqlite}}, MOUNTS)

    assert bool(found) == is_refused
    assert all("network file system" in sentence for sentence in found)


def test_env_example_names_every_setting_and_no_other():
    read = set(re.findall(r"env\.\w+\(\s*\"(\w+)\"", (ROOT / "project" / "settings.py").read_text()))
    named = set(re.findall(r"^(\w+)=", (ROOT / "deploy" / "env.example").read_text(), re.MULTILINE))

    assert named == read
