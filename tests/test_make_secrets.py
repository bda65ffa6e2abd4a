"""Secrets are made up on the host, once, and a power cut leaves none that is empty."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.kit import ROOT

pytestmark = pytest.mark.rung("sqlite+filesystem")  # nothing in it depends on database or broker

SCRIPTS = ("make-secrets", "rotate-secret")
SYNC = """#!/bin/sh
echo "$* of $(ls | tr '\\n' ' ')" >> ../synced
"""


@pytest.fixture
def run(tmp_path):
    """Give what runs one of the scripts on a folder of secrets, and returns what it prints."""
    for name, text in {"bin/sync": SYNC, **{f"bin/{name}": script(name, tmp_path) for name in SCRIPTS}}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "secrets").mkdir()
    path = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}

    def run(*command: str) -> str:
        told = subprocess.run(command, env=os.environ | path, stdout=subprocess.PIPE, text=True, check=True, timeout=30)
        return told.stdout

    return run


def script(name: str, folder: Path) -> str:
    """Return one of the scripts, for another folder than the host's."""
    text = (ROOT / "deploy/base" / name).read_text()
    assert "cd /etc/kit/secrets" in text
    return text.replace("cd /etc/kit/secrets", f"cd {folder}/secrets")


def test_empty_secret_counts_as_none(run, tmp_path):
    (tmp_path / "secrets/one").touch()
    (tmp_path / "secrets/two").write_text("kept")

    assert run("make-secrets", "one", "two", "three").split() == ["one", "three"]

    assert (tmp_path / "secrets/two").read_text() == "kept"
    assert len((tmp_path / "secrets/one").read_text().strip()) == 64
    assert (tmp_path / "secrets/three").stat().st_mode & 0o777 == 0o600


def test_secret_is_on_the_disk_before_it_has_its_name(run, tmp_path):
    run("make-secrets", "one")

    assert (tmp_path / "synced").read_text().splitlines() == ["one.new of one.new ", ". of one "]


def test_new_secret_is_on_the_disk_before_it_takes_the_place_of_the_last(run, tmp_path):
    (tmp_path / "secrets/one").write_text("last")

    run("rotate-secret", "begin", "one")

    first, second, _ = (tmp_path / "synced").read_text().splitlines()
    assert first == "one.new one.old.new of one one.new one.old.new "
    assert second == ". of one one.new one.old "
    assert (tmp_path / "secrets/one.old").read_text() == "last"
