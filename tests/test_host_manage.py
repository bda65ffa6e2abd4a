"""`kit manage` runs with the rights of the web process, not with those of root."""

from pathlib import Path

from deploy.host.manage import command_line

RELEASE = Path("/srv/kit/releases/0123456789ab")


def test_person_at_a_terminal_is_kit_web_in_a_sandbox():
    line = command_line(RELEASE, ["createsuperuser"], unit="kit-manage-1", is_terminal=True)

    assert "--uid=kit-web" in line
    assert "--pty" in line
    assert "--property=CapabilityBoundingSet=" in line
    assert line[-3:] == [f"{RELEASE}/.venv/bin/python", "manage.py", "createsuperuser"]


def test_key_reaches_it_as_a_file_and_output_a_pipe():
    line = command_line(RELEASE, ["jobs", "stats"], unit="kit-manage-1", is_terminal=False)

    assert "--pipe" in line
    assert "--property=LoadCredential=secret_key:/etc/kit/secrets/secret_key" in line
    assert any("SECRET_KEY_FILE=/run/credentials/kit-manage-1.service/secret_key" in word for word in line)
