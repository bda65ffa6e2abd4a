"""How a certificate and its key come to where nginx reads them: as one file, so that no power cut parts them."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.kit import ROOT

pytestmark = pytest.mark.rung("sqlite+filesystem")  # nothing in it depends on database or broker

DOMAIN = "kit.example.com"


@pytest.fixture
def host(tmp_path, monkeypatch):
    """Give a folder for certificates; systemctl and chgrp are stand-ins."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "tls").mkdir()
    for name in ("systemctl", "chgrp"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    return tmp_path


def run(*command: str | Path, **env: str) -> str:
    """Run a program and return what it prints."""
    given = {"check": True, "capture_output": True, "text": True, "timeout": 30, "env": os.environ | env}
    return subprocess.run([str(word) for word in command], **given).stdout


def test_self_made_one_is_one_file_with_its_key(host):
    run(ROOT / "deploy/nginx/self-made-certificate", DOMAIN, host / "tls")

    (made,) = (host / "tls").iterdir()
    assert (made.name, made.stat().st_mode & 0o777) == ("site.pem", 0o640)
    assert run("openssl", "x509", "-in", made, "-noout", "-pubkey") == run("openssl", "pkey", "-in", made, "-pubout")
    run("openssl", "verify", "-partial_chain", "-trusted", made, "-verify_hostname", DOMAIN, made)


def test_renewed_one_takes_its_place_as_a_whole(host):
    live = host / "live"
    live.mkdir()
    (live / "fullchain.pem").write_text("chain\n")
    (live / "privkey.pem").write_text("key\n")

    run(ROOT / "deploy/nginx/install-certificate", RENEWED_LINEAGE=str(live), KIT_TLS=str(host / "tls"))

    (made,) = (host / "tls").iterdir()
    assert (made.read_text(), made.stat().st_mode & 0o777) == ("chain\nkey\n", 0o640)
