"""What a backup is compared by, and how its program reaches a repository elsewhere."""

import argparse
import contextlib
import copy
import grp
import os
import pwd

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


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Give a folder in the place of /var/lib/kit."""
    for name, path in {"MEDIA": "media", "RESTORING": "restoring", "STATE": "state", "WORK": "state/work"}.items():
        monkeypatch.setattr(backup, name, tmp_path / path)
    backup.MEDIA.mkdir()
    return tmp_path


@pytest.fixture
def bring(monkeypatch):
    """Stand in for restic and for the users of a host: a snapshot holds one file."""

    def restic(*_, **__):
        backup.MEDIA.mkdir()
        (backup.MEDIA / "restored").write_text("of the backup")

    monkeypatch.setattr(backup, "restic", restic)
    monkeypatch.setattr(backup, "give", lambda *_: None)
    return lambda: backup.restore_media("", None, "latest")


def test_files_set_aside_survive_a_second_try(places, bring):
    backup.RESTORING.write_text("begun\n")
    (backup.MEDIA / "own").write_text("before")

    for _ in range(2):  # the first one was cut off afterwards
        bring()

    assert (places / "media.before-restore/own").read_text() == "before"
    assert [path.name for path in backup.MEDIA.iterdir()] == ["restored"]
    assert backup.media_files() == 1


def test_files_of_an_earlier_restore_are_not_overwritten(places, bring):
    (places / "media.before-restore").mkdir()
    (backup.MEDIA / "own").write_text("before")

    with pytest.raises(backup.Failure, match="move them away first"):
        bring()

    assert (backup.MEDIA / "own").exists()


def test_links_are_no_files_of_users(places):
    (backup.MEDIA / "file").touch()
    (backup.MEDIA / "link").symlink_to("file")

    assert backup.media_files() == 1


def test_no_backup_is_taken_of_a_half_restored_site(places):
    backup.RESTORING.write_text("begun\n")

    with pytest.raises(backup.Failure, match="A restore has begun here"):
        backup.take()


def test_no_backup_is_taken_of_an_empty_database(places, monkeypatch):
    answers = iter(["snapshot", "1", '{"rows": {}}'])
    session = type("Empty", (), {"ask": lambda self, _: next(answers)})
    monkeypatch.setattr(backup, "Session", lambda: contextlib.nullcontext(session()))
    monkeypatch.setattr(backup, "run", lambda *_, **__: "")
    backup.WORK.mkdir(parents=True)

    with pytest.raises(backup.Failure, match="holds no tables"):
        backup.dump()


def test_restore_gives_no_file_away_that_a_link_leads_to(tmp_path, monkeypatch):
    """A worker that was taken over leaves media/x -> /etc/shadow, and the snapshot keeps it."""
    given = []
    monkeypatch.setattr(backup.os, "chown", lambda path, *ids, follow_symlinks=True: given.append(follow_symlinks))
    user, group = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name
    link = tmp_path / "x"
    link.symlink_to(tmp_path / "shadow")

    backup.give(link, user, group)

    assert given == [False]
