"""What a backup is compared by, and how its program reaches a repository elsewhere."""

import argparse
import copy

import pytest

from deploy.host import backup

FACTS = {
    "rows": {"accounts_user": 2, "tasks_job": 3},
    "sequences": {"tasks_job_id_seq": 3},
    "job_states": {"waiting": 2, "dead": 1},
    "foreign_keys": 4,
    "invalid_foreign_keys": 0,
    "indexes": 9,
}
MANIFEST = {"database": FACTS, "media_files": 1}


def test_restored_backup_is_told_in_words():
    told = backup.compare(MANIFEST, copy.deepcopy(FACTS), 1)

    assert told[:2] == ["rows: 5 in 2 tables, table by table", "jobs: 1 dead, 2 waiting"]


@pytest.mark.parametrize(
    "what, value, named",
    [
        ("rows", {"accounts_user": 1, "tasks_job": 3}, "rows accounts_user: 2 when it was dumped, 1 restored"),
        ("rows", {"accounts_user": 2}, "rows tasks_job: 3 when it was dumped, None restored"),
        ("sequences", {"tasks_job_id_seq": 1}, "sequences tasks_job_id_seq"),
        ("job_states", {"waiting": 3}, "job_states dead: 1 when it was dumped, None restored"),
        ("foreign_keys", 3, "foreign_keys: 4, then 3"),
        ("invalid_foreign_keys", 1, "1 foreign keys do not hold"),
        ("indexes", 8, "indexes: 9, then 8"),
    ],
)
def test_each_difference_is_named(what, value, named):
    with pytest.raises(backup.Failure, match=named):
        backup.compare(MANIFEST, FACTS | {what: value}, 1)


def test_lost_file_of_a_user_is_named():
    with pytest.raises(backup.Failure, match="1 files of users, 0 in the snapshot"):
        backup.compare(MANIFEST, FACTS, 0)


@pytest.mark.parametrize(
    "repository, host",
    [("sftp:me@store.example:/kit", "me@store.example"), ("sftp:store.example:kit", "store.example")],
)
def test_sftp_is_reached_with_the_hosts_own_key(repository, host, tmp_path, monkeypatch):
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))

    _, option = backup.ssh_option(repository)

    assert option.startswith(f"sftp.command=ssh -i {tmp_path}/backup_ssh_key -o BatchMode=yes")
    assert option.endswith(f"{host} -s sftp")
    assert backup.ssh_option("s3:https://store.example/kit") == ()


def test_keys_of_the_repository_elsewhere_come_from_a_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    (tmp_path / "backup_environment").write_text("# a comment = no\nAWS_ACCESS_KEY_ID=me\nAWS_SECRET_ACCESS_KEY=a=b\n")

    assert backup.elsewhere_environment() == {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "a=b"}


def test_program_that_fails_is_told_with_its_words():
    with pytest.raises(backup.Failure, match=r"It was not done: sh failed \(3\): no room"):
        backup.run(["sh", "-c", "echo no room >&2; exit 3"], what="It was not done")


def test_program_that_hangs_is_ended():
    with pytest.raises(backup.Failure, match="did not end within 1 s"):
        backup.run(["sleep", "60"], what="It was not done", timeout_s=1)


@pytest.mark.parametrize("name", ["mail'; DROP TABLE x; --", "", "Mail", "-x"])
def test_only_a_name_can_be_held(name):
    with pytest.raises(argparse.ArgumentTypeError):
        backup.queue_name(name)


def test_last_good_one_is_kept_for_people_and_metrics(tmp_path, monkeypatch):
    monkeypatch.setattr(backup, "STATE", tmp_path)

    backup.note("backup", rows=1)

    assert backup.noted("backup")["rows"] == 1
    assert (tmp_path / "backup.json").stat().st_mode & 0o777 == 0o644
    assert backup.noted("drill") == {}
