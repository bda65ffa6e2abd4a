"""Settings from the environment: what production refuses, what nonsense is told, what env.example promises."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from project import env, production

pytestmark = pytest.mark.rung("sqlite+filesystem")  # nothing in it depends on database or broker

ROOT = Path(__file__).resolve().parent.parent
SOUND = {
    "ENVIRONMENT": "production",
    "SECRET_KEY": "k3y-" + "".join(chr(97 + number % 26) for number in range(0, 180, 3)),
    "ALLOWED_HOSTS": "kit.example.com",
    "SITE_URL": "https://kit.example.com",
}


@pytest.fixture
def start(tmp_path):
    """Return a function that starts a command of the site, check if none is named, in a given environment."""

    def run(*arguments: str, command: str = "check", **env: str) -> subprocess.CompletedProcess:
        clean = {"PATH": os.environ["PATH"], "DATA_DIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "project.settings"}
        return subprocess.run(
            [sys.executable, "manage.py", command, *arguments],
            cwd=ROOT,
            env=clean | env,
            capture_output=True,
            text=True,
            timeout=60,
        )

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
        ({"SECRET_KEY": ""}, "SECRET_KEY is missing or shorter than 50 characters"),
        ({"SECRET_KEY": "short"}, "SECRET_KEY is missing or shorter than 50 characters"),
        ({"ALLOWED_HOSTS": ""}, "ALLOWED_HOSTS must name the site's hosts"),
        ({"ALLOWED_HOSTS": "kit.example.com,*"}, "ALLOWED_HOSTS must name the site's hosts"),
        ({"SITE_URL": ""}, "SITE_URL is missing or not https"),
        ({"SITE_URL": "http://kit.example.com"}, "SITE_URL is missing or not https"),
        ({"TEAM_WEBHOOK_URL": "http://chat.example.com/hook"}, "TEAM_WEBHOOK_URL is not https"),
        ({"PAYMENT_URL": "http://pay.example.com"}, "PAYMENT_URL is not https"),
    ],
)
def test_production_refuses_what_is_unsafe(start, change, sentence):
    refused = start(**SOUND | change)

    assert refused.returncode != 0
    assert sentence in refused.stderr


def test_production_names_everything_it_refuses_at_once(start):
    refused = start(ENVIRONMENT="production", DEBUG="1")

    rules = ("DEBUG is on", "SECRET_KEY is", "ALLOWED_HOSTS must", "SITE_URL is")
    assert all(rule in refused.stderr for rule in rules)


@pytest.mark.parametrize("hosts", ["kit.example.com", "localhost,192.0.2.1", "*", ".localhost.example.com"])
def test_demo_refuses_to_be_reached_by_others(start, hosts):
    refused = start(ALLOWED_HOSTS=hosts)

    assert refused.returncode != 0
    assert "Set ENVIRONMENT=production for a site that others reach" in refused.stderr


def test_demo_makes_up_a_key_once_and_keeps_it_to_its_owner(start, tmp_path):
    start()
    file = tmp_path / "demo-secret-key"
    key = file.read_text()

    again = start()

    assert (again.returncode, file.read_text()) == (0, key)
    assert len(key) >= 50 and file.stat().st_mode & 0o777 == 0o600


def test_processes_that_start_at_once_have_the_same_secret(tmp_path):
    code = "import sys, pathlib; from project import env; print(env.kept_secret(pathlib.Path(sys.argv[1])))"
    command = [sys.executable, "-c", code, str(tmp_path / "secret")]

    started = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    keys = {process.communicate(timeout=60)[0].strip() for process in started}

    assert keys == {(tmp_path / "secret").read_text()}
    assert len(keys.pop()) >= 50


def test_secret_that_a_crash_left_empty_is_made_up(tmp_path):
    (tmp_path / "secret").touch()

    secret = env.kept_secret(tmp_path / "secret")

    assert secret and secret == env.kept_secret(tmp_path / "secret")


def test_hsts_binds_other_hosts_only_when_told_to(start):
    show = "from django.conf import settings as s; print(s.SECURE_HSTS_INCLUDE_SUBDOMAINS, s.SECURE_HSTS_PRELOAD)"
    env_told = SOUND | {"HSTS_INCLUDE_SUBDOMAINS": "1", "HSTS_PRELOAD": "1"}

    shown = [start("-c", show, command="shell", **env) for env in (SOUND, env_told)]

    assert [run.stdout.strip().splitlines()[-1] for run in shown] == ["False False", "True True"]


def test_demo_starts_without_a_warning_in_a_folder_of_any_name(start, tmp_path):
    started = start("--database=default", DATA_DIR=str(tmp_path / "a#b?c"), PYTHONWARNINGS="error")

    assert started.returncode == 0, started.stderr
    assert (tmp_path / "a#b?c" / "db.sqlite3").exists()


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("ENVIRONMENT", "staging", "ENVIRONMENT is 'staging'; set it to one of: demo, production."),
        ("DEBUG", "maybe", "DEBUG is 'maybe'; set it to 1 or 0."),
        ("EMAIL_PORT", "smtp", "EMAIL_PORT is 'smtp'; set it to a whole number from 1 to 65535."),
        ("JOBS_HIGH_WATER", "0", "JOBS_HIGH_WATER is '0'; set it to a whole number from 1 to 10000."),
        ("TIME_ZONE", "Mars/X", "TIME_ZONE is 'Mars/X'; set it to a time zone such as UTC"),
        ("TIME_ZONE", "Europe", "TIME_ZONE is 'Europe'; set it to a time zone such as UTC"),
        ("TIME_ZONE", "../etc/passwd", "TIME_ZONE is '../etc/passwd'; set it to a time zone such as UTC"),
        (
            "DATABASE_URL",
            "nonsense",
            "DATABASE_URL begins with 'nonsense'; set it to an address that begins with one of",
        ),
        ("DATABASE_URL", "mysql://kit:secret@db/kit", "DATABASE_URL begins with 'mysql'; set it to an address"),
        ("DATABASE_URL", "postgresql://kit:sec/ret@db/kit", "DATABASE_URL cannot be read; write special characters"),
        ("CELERY_BROKER_URL", "nosuch://kit:secret@mq", "CELERY_BROKER_URL begins with 'nosuch'; set it to an address"),
        ("CELERY_BROKER_URL", "memory://", "CELERY_BROKER_URL begins with 'memory'; set it to an address"),
        ("SITE_URL", "kit.example.com", "SITE_URL is 'kit.example.com'; set it to scheme and host only"),
        ("SITE_URL", "https://kit.example.com/kit", "SITE_URL is 'https://kit.example.com/kit'; set it to scheme"),
        (
            "PAYMENT_URL",
            "pay.example.com",
            "PAYMENT_URL begins with 'pay.example.com'; set it to an address that begins",
        ),
        ("PAYMENT_UNSURE_S", "0", "PAYMENT_UNSURE_S is '0'; set it to a whole number from 1 to 86400."),
        ("DB_STATEMENT_TIMEOUT_S", "10s", "DB_STATEMENT_TIMEOUT_S is '10s'; set it to a whole number from 0 to"),
        (
            "BROKER_DIR",
            "/dev/null/x",
            "BROKER_DIR leads to /dev/null/x/messages, which cannot be used (Not a directory)",
        ),
        ("DATA_DIR", "/dev/null/x", "DATA_DIR leads to /dev/null/x, which cannot be used (Not a directory)"),
        ("LOG_LEVEL", "loud", "LOG_LEVEL is 'loud'; set it to one of: DEBUG, INFO, WARNING, ERROR."),
    ],
)
def test_nonsense_stops_the_start_with_variable_value_and_fix(start, variable, value, sentence):
    refused = start(**{variable: value})

    assert refused.returncode != 0
    assert sentence in refused.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("DATABASE_URL", "mysql://kit:hunter2@db/kit"),
        ("DATABASE_URL", "kit:hunter2@db/kit"),
        ("DATABASE_URL", "postgresql://kit:hunter2/more@db/kit"),
        ("CELERY_BROKER_URL", "nosuch://:hunter2@mq"),
        ("TEAM_WEBHOOK_URL", "chat.example.com/hooks/hunter2"),
    ],
)
def test_refused_address_does_not_show_its_password(start, variable, value):
    refused = start(**{variable: value})

    assert refused.returncode != 0
    assert "hunter2" not in refused.stdout + refused.stderr


def test_setting_may_come_from_a_file(start, tmp_path):
    (tmp_path / "key").write_text(SOUND["SECRET_KEY"] + "\n")
    (tmp_path / "older").write_text("one\ntwo,three\n")
    files = {"SECRET_KEY_FILE": str(tmp_path / "key"), "SECRET_KEY_FALLBACKS_FILE": str(tmp_path / "older")}
    show = "from django.conf import settings as s; print(s.SECRET_KEY, s.SECRET_KEY_FALLBACKS)"

    shown = start("-c", show, command="shell", **SOUND | {"SECRET_KEY": ""} | files)

    assert shown.stdout.strip().splitlines()[-1] == f"{SOUND['SECRET_KEY']} ['one', 'two', 'three']"


def test_setting_given_twice_is_refused(start, tmp_path):
    (tmp_path / "key").write_text(SOUND["SECRET_KEY"])

    refused = start(**SOUND, SECRET_KEY_FILE=str(tmp_path / "key"))

    assert refused.returncode != 0
    assert "SECRET_KEY and SECRET_KEY_FILE are both set; unset one of them." in refused.stderr


def test_file_that_cannot_be_read_stops_the_start_in_words(start, tmp_path):
    refused = start(**SOUND | {"SECRET_KEY": ""}, SECRET_KEY_FILE=str(tmp_path / "none"))

    assert refused.returncode != 0
    assert f"SECRET_KEY_FILE is '{tmp_path}/none', which cannot be read (No such file or directory)" in refused.stderr


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
    settings |= {"SITE_URL": "https://kit.example.com"}

    found = production.refusals(settings | {"DATABASES": {"default": sqlite}}, MOUNTS)

    assert bool(found) == is_refused
    assert all("network file system" in sentence for sentence in found)


def test_env_example_names_every_setting_and_no_other():
    read = set(re.findall(r"env\.\w+\(\s*\"(\w+)\"", (ROOT / "project" / "settings.py").read_text()))
    named = set(re.findall(r"^(\w+)=", (ROOT / "deploy" / "env.example").read_text(), re.MULTILINE))

    assert named == read


def test_env_example_starts_production_once_it_has_a_key(start, tmp_path):
    lines = re.findall(r"^(\w+)=(.*)$", (ROOT / "deploy" / "env.example").read_text(), re.MULTILINE)
    env = dict(lines) | {"SECRET_KEY": SOUND["SECRET_KEY"], "DATA_DIR": str(tmp_path)}

    checked = start("--deploy", "--fail-level=WARNING", **env)

    assert checked.returncode == 0, checked.stderr
