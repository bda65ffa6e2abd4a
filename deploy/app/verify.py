"""Attack the app on its own host. Prints a sentence, with its id, for each promise that does not hold.

Run as root with the database's name and the path of probe.py, which it runs in each unit's sandbox.
"""

import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HOME, CONFIG, UNITS = Path("/srv/kit"), Path("/etc/kit"), Path("/etc/systemd/system")
RUN, TRANSIENT = Path("/run/kit"), Path("/run/systemd/system")
# The highest exposure that systemd-analyze may find.
BOUNDS = {"web": 0.5, "beat": 0.5, "relay": 1.2, "worker": 1.2, "flower": 1.1}
SHORTEST_SECRET = 12  # what is shorter would be found by chance
REPLACED = re.compile(
    r"^(Type|ExecStart|ExecStop|Restart|WatchdogSec|NotifyAccess|Sockets|Condition\w+)=", re.MULTILINE
)


def main() -> int:
    """Print what does not hold."""
    database, probe = sys.argv[1], sys.argv[2]
    current = os.path.basename(os.readlink(HOME / "current"))
    roles = [role for role in BOUNDS if (CONFIG / f"{role}.env").exists()]
    checks = [
        one_release(current, roles),
        nothing_writable(),
        sockets(),
        secrets_in_processes(),
        secrets_in_journal(),
        sandboxes(current, roles, database, Path(probe).read_text()),
        exposures(current, roles),  # after the line above, which has systemd read the units as they are now
    ]
    for sentences in checks:
        for sentence in sentences:
            print(sentence)
    return 0


def run(*command: str) -> str:
    """Return what a program prints, its errors too."""
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    return ended.stdout


def one_release(current: str, roles: list[str]) -> Iterator[str]:
    """U-04: of each role one process serves, of the current release, and boot starts just that."""
    wanted = {f"kit-{role}@{current}.service" for role in roles}
    lines = run("systemctl", "list-units", "--plain", "--no-legend", "--all", "kit-*@*.service").splitlines()
    units = {line.split()[0]: line.split()[2] for line in lines if line.strip()}
    if missing := wanted - {unit for unit, state in units.items() if state == "active"}:
        yield f"U-04: not running: {', '.join(sorted(missing))}. See `kit logs`."
    if more := {unit for unit, state in units.items() if state == "active"} - wanted:
        yield f"U-04: of another release than the current one, {current}: {', '.join(sorted(more))}."
    if failed := [unit for unit, state in units.items() if state == "failed"]:
        yield f"U-04: failed: {', '.join(sorted(failed))}."
    if (enabled := {file.name for file in UNITS.glob("multi-user.target.wants/kit-*@*.service")}) != wanted:
        yield f"U-04: boot would start {', '.join(sorted(enabled)) or 'nothing'}, not {', '.join(sorted(wanted))}."


def exposures(current: str, roles: list[str]) -> Iterator[str]:
    """U-01: what systemd finds open in each unit as it is loaded, drop-ins included."""
    for role in roles:
        told = run("systemd-analyze", "security", "--no-pager", f"kit-{role}@{current}.service")
        found = re.search(r"exposure level for \S+: ([\d.]+)", told)
        if found is None or float(found[1]) > BOUNDS[role]:
            yield f"U-01: the exposure of kit-{role} is {found and found[1]}, not at most {BOUNDS[role]}."


def nothing_writable() -> Iterator[str]:
    """H-14: code and environments are root's, and nobody else can change them."""
    for folder, folders, files in os.walk(HOME):
        for name in folders + files:
            found = os.lstat(os.path.join(folder, name))
            is_open = not stat.S_ISLNK(found.st_mode) and found.st_mode & 0o022
            if found.st_uid != 0 or is_open:
                yield f"H-14: {os.path.join(folder, name)} can be changed by others than root."
                return
    if (CONFIG / "secrets").stat().st_mode & 0o077:
        yield "S-01: /etc/kit/secrets is open to others than root: chmod 700 it."
    for file in (CONFIG / "secrets").rglob("*"):
        if file.is_file() and (file.stat().st_mode & 0o077 or file.stat().st_uid != 0):
            yield f"S-01: {file} can be read by others than root: chmod 600 it."


def sockets() -> Iterator[str]:
    """N-11: nobody but nginx can speak to the site directly."""
    found = Path("/run/kit-web.sock").stat()
    if found.st_mode & 0o007 or Path("/run/kit-web.sock").owner() != "root":
        yield "N-11: /run/kit-web.sock is open to others than nginx."


def secrets() -> dict[str, bytes]:
    """Return the secrets that are long enough to be looked for."""
    files = [file for file in (CONFIG / "secrets").rglob("*") if file.is_file()]
    contents = {file.name: file.read_bytes().strip() for file in files}
    return {name: content for name, content in contents.items() if len(content) >= SHORTEST_SECRET}


def secrets_in_processes() -> Iterator[str]:
    """S-03: no secret stands in a process's environment or arguments, nor in the settings that all may read."""
    places = [*Path("/proc").glob("[0-9]*/environ"), *Path("/proc").glob("[0-9]*/cmdline"), *CONFIG.glob("*.env")]
    places += [*UNITS.glob("kit-*"), *UNITS.glob("kit-*.d/*")]
    for place in places:
        try:
            content = place.read_bytes()
        except (FileNotFoundError, ProcessLookupError, IsADirectoryError):
            continue  # a process that has ended; a folder
        for name, secret in secrets().items():
            if secret in content:
                yield f"S-03: the secret {name} stands in {place}."


def secrets_in_journal() -> Iterator[str]:
    """S-03: no secret was ever logged."""
    wanted = secrets()
    with subprocess.Popen(["journalctl", "--output=cat", "--no-pager"], stdout=subprocess.PIPE) as journal:
        for line in journal.stdout:
            for name in [name for name, secret in wanted.items() if secret in line]:
                yield f"S-03: the secret {name} is in the journal: rotate it (make rotate-secrets)."
                del wanted[name]


def sandboxes(current: str, roles: list[str], database: str, probe: str) -> Iterator[str]:
    """U-05: what a process that was taken over could do in each unit's sandbox."""
    RUN.mkdir(exist_ok=True)
    (RUN / "probe.py").write_text(probe)
    TRANSIENT.mkdir(parents=True, exist_ok=True)
    units = {role: f"kit-probe-{role}.service" for role in roles}
    for role, unit in units.items():
        (TRANSIENT / unit).write_text(probing(role, current, database))
    try:
        run("systemctl", "daemon-reload")
        told = run("systemctl", "start", *units.values())
        for line in told.splitlines():
            yield f"U-05: the probe did not run: {line}"
        for role in roles:
            for line in (RUN / f"probe-{role}.out").read_text().splitlines():
                yield f"U-05: kit-{role} was taken over by the probe: {line}."
    finally:
        for left in [*RUN.glob("probe*"), *TRANSIENT.glob("kit-probe-*.service")]:
            left.unlink()
        run("systemctl", "daemon-reload")


def probing(role: str, current: str, database: str) -> str:
    """Return a role's own unit, whose program alone is another."""
    whole = (UNITS / f"kit-{role}@.service").read_text().replace("\\\n", " ")
    unit = whole.partition("[Install]")[0]
    more = [file.read_text() for file in sorted(UNITS.glob(f"kit-{role}@.service.d/*.conf"))]
    start = f"{HOME}/releases/{current}/.venv/bin/python {RUN}/probe.py {role} {database}"
    text = REPLACED.sub(r"#\1=", "\n".join([unit, *more])).replace("%i", current)
    return f"{text}\n[Service]\nType=oneshot\nStandardOutput=truncate:{RUN}/probe-{role}.out\nExecStart={start}\n"


if __name__ == "__main__":
    sys.exit(main())
