"""The deploy's small tools: who may deploy now, and whether what is deployed could be had again."""

import os
import subprocess
import time

import pytest

from tests.kit import ROOT

TOOLS = ROOT / "deploy" / "base"
VOID_AFTER_S = "1800"


@pytest.fixture
def lock(tmp_path):
    """Give a function that speaks to a deploy lock; it returns exit code and output."""

    def speak(verb: str, owner: str) -> tuple[int, str]:
        env = os.environ | {"KIT_DEPLOY_LOCK": str(tmp_path / "lock")}
        command = [TOOLS / "deploy-lock", verb, owner, VOID_AFTER_S]
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        return done.returncode, done.stdout

    return speak


@pytest.fixture
def checkout(tmp_path):
    """Give a checkout with one commit, and a function that runs git in it."""
    folder = tmp_path / "checkout"
    folder.mkdir()

    def git(*words: str) -> None:
        who = ["-c", "user.name=Tester", "-c", "user.email=tester@example.com"]
        subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)

    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "-m", "first")
    return folder, git


def unsaved(folder) -> str:
    """Return what the tool says of a checkout."""
    return subprocess.run([TOOLS / "unsaved-work", folder], check=True, capture_output=True, text=True).stdout


def test_second_deploy_is_told_who_is_first(lock):
    """And may go on when that one has ended."""
    assert lock("take", "laptop:/kit")[0] == 0
    code, said = lock("take", "other:/kit")
    assert (code, said.split(",")[0]) == (3, "laptop:/kit")

    lock("give-back", "laptop:/kit")

    assert lock("take", "other:/kit")[0] == 0


def test_deploy_that_was_cut_off_is_repeated_at_once_from_the_same_place(lock):
    """Ctrl-C gives nothing back."""
    lock("take", "laptop:/kit")

    assert lock("take", "laptop:/kit")[0] == 0


def test_nobody_gives_back_what_is_anothers(lock):
    """One that was refused ends, too."""
    lock("take", "laptop:/kit")

    lock("give-back", "other:/kit")

    assert lock("look", "other:/kit")[0] == 3


def test_lock_of_a_dead_deploy_is_void_after_half_an_hour_or_broken_by_hand(lock, tmp_path):
    """Nobody has to know which file to remove."""
    lock("take", "laptop:/kit")
    lock("break", "other:/kit")
    assert lock("look", "laptop:/kit")[0] == 3

    (tmp_path / "lock").write_text(f"{int(time.time()) - 1801} other:/kit\n")

    assert lock("take", "laptop:/kit")[0] == 0


def test_of_many_that_ask_at_once_one_gets_the_lock(tmp_path):
    """Looking and taking are one step."""
    env = os.environ | {"KIT_DEPLOY_LOCK": str(tmp_path / "lock")}
    commands = [[TOOLS / "deploy-lock", "take", f"laptop{number}:/kit", VOID_AFTER_S] for number in range(20)]

    started = [subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL) for command in commands]

    assert sorted(process.wait() for process in started) == [0, *[3] * 19]


def test_what_is_neither_committed_nor_pushed_is_named(checkout, tmp_path):
    """What ran on a server must be to be had again."""
    folder, git = checkout
    assert unsaved(folder) == ""  # no remote: nobody could push

    git("init", "--quiet", "--bare", str(tmp_path / "remote"))
    git("remote", "add", "origin", str(tmp_path / "remote"))
    assert unsaved(folder) == "1 commits are not pushed\n"
    git("push", "--quiet", "origin", "HEAD:main")
    assert unsaved(folder) == ""
    (folder / "new").write_text("")
    assert unsaved(folder) == "1 files are not committed\n"
