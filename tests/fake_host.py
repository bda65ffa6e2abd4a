"""A host for tests of `kit`: a folder, and stand-ins for systemd's programs, which are at the far edge."""

import json
import os
import socketserver
import subprocess
import sys
import tarfile
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from deploy.host import venv
from deploy.host.layout import ROLES, Layout

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = "nothing==1\n"
# Units that run are files in active/; a unit named in broken does not start, one in draining does not end at once.
# What is asked is kept in calls.
SYSTEMCTL = """#!/bin/sh
verb=$1; shift
echo "$verb $*" >> "$STAGE/calls"
units=$(for word in "$@"; do case $word in -*) ;; *) echo "$word" ;; esac; done)
case $verb in
    start|restart)
        for unit in $units; do
            if grep -qsx "$unit" "$STAGE/broken"; then exit 1; fi
            touch "$STAGE/active/$unit"
        done ;;
    stop)
        for unit in $units; do
            if [ "$1" != --no-block ] || ! grep -qsx "$unit" "$STAGE/draining"; then rm -f "$STAGE/active/$unit"; fi
        done ;;
    is-active)
        for unit in $units; do if [ -e "$STAGE/active/$unit" ]; then echo active; else echo inactive; fi; done ;;
    show) cat "$STAGE/shown-$1" 2>/dev/null || echo "MainPID=$$" ;;
    enable) for unit in $units; do ln -sf x "$UNITS/multi-user.target.wants/$unit"; done ;;
    disable) for unit in $units; do rm -f "$UNITS/multi-user.target.wants/$unit"; done ;;
    list-units) for unit in "$STAGE"/active/*; do [ -e "$unit" ] && echo "${unit##*/} loaded active running x"; done ;;
esac
exit 0
"""
# What is written to the disk, and which finished folders have their names by then.
SYNC = """#!/bin/sh
for path in "$@"; do :; done
echo "sync $path; there are $(ls "${path%/*}" | tr '\\n' ' ')" >> "$STAGE/synced"
"""
SYSTEMD_RUN = """#!/bin/sh
while [ "${1#--}" != "$1" ]; do
    echo "$1" >> "$STAGE/options"
    case $1 in
        --setenv=*) export "${1#--setenv=}" ;;
        --property=WorkingDirectory=*) cd "${1#--property=WorkingDirectory=}" || exit 1 ;;
    esac
    shift
done
exec "$@"
"""
# The release's Python: it answers as manage.py would, from a file for each question.
PYTHON = """#!/bin/sh
shift
echo "$RELEASE $*" >> "$STAGE/asked"
if [ "$1" = deploy ]; then question=$2; else question=$1; fi
if [ -e "$STAGE/fails-$question" ]; then cat "$STAGE/fails-$question" >&2; exit 1; fi
if [ "$question" = prepare ]; then echo body > "$STATIC_ROOT/site.$RELEASE.css"; fi
cat "$STAGE/$question.json" 2>/dev/null || echo '{}'
"""


class FakeHost:
    """The folder, what has been asked of systemd, and the site behind the socket."""

    def __init__(self, folder: Path, monkeypatch):
        self.layout = Layout(folder / "host")
        self.stage = folder / "stage"
        (self.stage / "active").mkdir(parents=True)
        for made in ("releases", "venvs"):
            (self.layout.home / made).mkdir(parents=True)
        (self.layout.units / "multi-user.target.wants").mkdir(parents=True)
        (self.layout.config / "secrets").mkdir(parents=True)
        self.layout.run.mkdir(parents=True)
        self._programs(folder / "bin", monkeypatch)
        self._settings()
        self.answer("prepare", {"migrations": [], "faults": []})
        self.answer("smoke", {"fault": ""})
        self.site = Site(self)

    def _programs(self, folder: Path, monkeypatch) -> None:
        folder.mkdir()
        nothing = "#!/bin/sh\nexit 0\n"
        programs = {"systemctl": SYSTEMCTL, "systemd-run": SYSTEMD_RUN, "journalctl": nothing, "chown": nothing}
        programs["psql"] = "#!/bin/sh\necho 8000000\n"
        programs["sync"] = SYNC
        programs["pg_dump"] = "#!/bin/sh\necho dumped\n"
        for name, text in programs.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        monkeypatch.setenv("STAGE", str(self.stage))
        monkeypatch.setenv("UNITS", str(self.layout.units))

    def _settings(self) -> None:
        for role in ROLES:
            (self.layout.units / f"kit-{role}@.service").write_text(f"[Service]\n# {role}\n")
            (self.layout.config / f"{role}.env").write_text('DATABASE_URL="postgresql://"\n')
        (self.layout.config / "kit.env").write_text('ALLOWED_HOSTS="kit.example.com"\n')
        (self.layout.config / "owner.env").write_text('DATABASE_URL="postgresql://"\n')

    def answer(self, question: str, value: dict) -> None:
        """Say what manage.py answers."""
        (self.stage / f"{question}.json").write_text(json.dumps(value) + "\n")

    def fail(self, question: str, words: str) -> None:
        """Let manage.py fail at a question."""
        (self.stage / f"fails-{question}").write_text(words)

    def break_unit(self, unit: str) -> None:
        """Let a unit not start."""
        with (self.stage / "broken").open("a") as broken:
            broken.write(f"{unit}\n")

    def let_drain(self, unit: str) -> None:
        """Let a unit that is told to stop in the background go on for long."""
        (self.stage / "draining").write_text(f"{unit}\n")

    def archive(self, name: str) -> Path:
        """Return a release's archive."""
        source = self.stage / f"source-{name}"
        source.mkdir(exist_ok=True)
        (source / "requirements.txt").write_text(REQUIREMENTS)
        (source / "manage.py").write_text(f"RELEASE = {name!r}\n")
        made = self.stage / f"{name}.tar"
        with tarfile.open(made, "w") as tar:
            tar.add(source, ".")
        self._environment(source / "requirements.txt")
        return made

    def _environment(self, requirements: Path) -> None:
        python = self.layout.venvs / venv.name_for(requirements) / "bin/python"
        python.parent.mkdir(parents=True, exist_ok=True)
        python.write_text(PYTHON)
        python.chmod(0o755)

    @property
    def active(self) -> set[str]:
        """Return the units that run."""
        return {file.name for file in (self.stage / "active").iterdir()}

    @property
    def enabled(self) -> set[str]:
        """Return the units that boot would start."""
        return {file.name for file in (self.layout.units / "multi-user.target.wants").iterdir()}

    @property
    def calls(self) -> list[str]:
        """Return what was asked of systemctl."""
        file = self.stage / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def units(self, name: str) -> set[str]:
        """Return all units of a release."""
        return {self.layout.unit(role, name) for role in ROLES}

    def serves(self, name: str) -> bool:
        """Tell whether this release alone runs, boot starts it alone, and `current` leads to it."""
        is_whole = self.active == self.enabled == self.units(name)
        return is_whole and self.layout.current_release() == name


class Site:
    """Answers on the site's socket with the release whose web unit runs; with several, each in its turn."""

    def __init__(self, host: FakeHost):
        turns = iter(range(10**9))

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                names = sorted(unit[8:20] for unit in host.active if unit.startswith("kit-web@"))
                self.send_response(200 if names else 503)
                self.send_header("X-Release", names[next(turns) % len(names)] if names else "")
                self.end_headers()

            def address_string(self):
                return "socket"

            def log_message(self, *_):
                """Say nothing."""

        # A short path: a socket's may have 107 characters.
        self._server = socketserver.ThreadingUnixStreamServer(str(host.layout.socket), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()


def run_kit(host: FakeHost, code: str) -> subprocess.Popen:
    """Start a process that runs code with `layout`, e.g. to send it a signal."""
    before = ["from pathlib import Path", "from deploy.host.layout import Layout"]
    before.append(f"layout = Layout(Path({str(host.layout.root)!r}))")
    command = [sys.executable, "-c", "\n".join([*before, code])]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
