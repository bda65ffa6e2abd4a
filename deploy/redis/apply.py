#!/usr/bin/env python3
"""Bring a running Redis to what redis.conf and users.acl say, without a restart where it can be done without.

`apply.py --flavour redis CONF ACL` proves both candidates in a Redis of its own, changes the running one, and only
then puts them in their places. It prints a line for each change, `restart: ...` for what only a restart does, and
nothing when there is nothing to do. Only the standard library: it runs on the host, as root. No secret is printed.
"""

import argparse
import contextlib
import hashlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SECRETS = Path("/etc/kit/secrets")
USERS = ("relay", "worker", "flower", "monitor", "admin")
ADDRESSED = ("relay", "worker", "flower")  # those that get their broker's address as a secret
ANSWER_S = 10
REWRITE_S = 600
# The trial runs beside the real one: these it must have for itself.
OF_THE_TRIAL = ("port", "bind", "unixsocket", "dir", "pidfile", "logfile", "appendonly", "supervised", "aclfile")
# What the trial cannot tell is compared as it is written.
AS_WRITTEN = ("port", "bind", "unixsocket", "dir", "aclfile")


class Refused(Exception):
    """Redis said no, or a candidate cannot be used; the text says why."""


class Redis:
    """One connection to a Redis by its socket, spoken to in its own plain protocol."""

    def __init__(self, path: str):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(ANSWER_S)
        self._socket.connect(path)
        self._file = self._socket.makefile("rb")

    def __call__(self, *words: str):
        """Send a command and return its answer.

        Raises: Refused.
        """
        encoded = [word.encode() for word in words]
        parts = [b"*%d\r\n" % len(encoded), *(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded)]
        self._socket.sendall(b"".join(parts))
        return self._answer()

    def config(self) -> dict[str, str]:
        """Return all settings."""
        found = self("CONFIG", "GET", "*")
        return dict(zip(found[::2], found[1::2], strict=True))

    def _answer(self):
        line = self._file.readline().rstrip(b"\r\n").decode()
        if not line:
            raise ConnectionResetError("it has closed the connection")
        kind, rest = line[:1], line[1:]
        if kind == "-":
            raise Refused(rest)
        if kind == "$":
            return None if rest == "-1" else self._file.read(int(rest) + 2)[:-2].decode()
        if kind == "*":
            return [self._answer() for _ in range(int(rest))]
        return rest


def main() -> int:
    """Do it and return the exit code."""
    parser = argparse.ArgumentParser(description="Bring a running Redis to what its files say.")
    parser.add_argument("--flavour", choices=("redis", "valkey"), default="redis")
    parser.add_argument("--check", action="store_true", help="only tell what would change")
    parser.add_argument("conf", type=Path, help="the candidate of redis.conf")
    parser.add_argument("acl", type=Path, help="the candidate of users.acl, with {passwords} for each user's hashes")
    options = parser.parse_args()
    try:
        for change in apply(options.flavour, options.conf, options.acl, is_check=options.check):
            print(change, flush=True)
    except (Refused, OSError) as error:
        print(f"Redis was left as it was: {error}", file=sys.stderr)
        return 1
    return 0


def apply(flavour: str, conf: Path, acl: Path, *, is_check: bool):
    """Yield what changes, each change done when the next one is asked for."""
    wanted_acl = rendered_acl(acl.read_text(), version(flavour), password_hashes())
    wanted, users = tried(flavour, conf, wanted_acl)
    live = signed_in(f"/run/{flavour}/redis.sock", flavour)
    restarts = yield from apply_settings(live, wanted, is_check=is_check)
    if "aclfile" not in restarts:
        yield from apply_users(live, wanted_acl, users, is_check=is_check)
    home = Path("/etc") / flavour
    for target, text in ((home / f"{flavour}.conf", conf.read_text()), (home / "users.acl", wanted_acl)):
        if not target.exists() or target.read_text() != text:
            yield f"{target}: written"
            if not is_check:
                install(target, text, flavour)
    for user in ADDRESSED:
        password, file = (SECRETS / f"redis_{user}").read_text().strip(), SECRETS / f"broker_{user}"
        address = f"redis://{user}:{password}@127.0.0.1:{wanted['port']}/0\n"
        if not file.exists() or file.read_text() != address:
            yield f"{file}: written"
            if not is_check:
                install(file, address, "root")
    if restarts:
        yield f"restart: {', '.join(restarts)}"


def apply_settings(live: Redis, wanted: dict[str, str], *, is_check: bool):
    """Yield the settings that change, and return those that need a restart."""
    now = live.config()
    if now["appendonly"] == "no" and wanted["appendonly"] == "yes":
        yield "appendonly: turned on in the running instance"
        if not is_check:
            turn_on_append_only(live)
    restarts = [name for name in AS_WRITTEN if now.get(name, "") != wanted[name]]
    for name in sorted((wanted.keys() & now.keys()) - {*OF_THE_TRIAL}):
        if now[name] != wanted[name]:
            yield f"{name}: {now[name] or 'nothing'} -> {wanted[name] or 'nothing'}"
            if not is_check and not set_live(live, name, wanted[name]):
                restarts.append(name)
    return restarts


def version(flavour: str) -> tuple[int, ...]:
    """Return which Redis is installed. Valkey tells its own version; its first, 7.2, knows all that is asked for."""
    said = subprocess.run([f"{flavour}-server", "--version"], check=True, capture_output=True, text=True).stdout
    return tuple(map(int, re.search(r"v=(\d+)\.(\d+)", said).groups()))


def password_hashes(secrets: Path = SECRETS) -> dict[str, list[str]]:
    """Return for each user the hashes of its password and, during a rotation, of its last one."""
    return {
        user: [
            hashlib.sha256(file.read_text().strip().encode()).hexdigest()
            for file in (secrets / f"redis_{user}", secrets / f"redis_{user}.old")
            if file.exists()
        ]
        for user in USERS
    }


def rendered_acl(text: str, redis_version: tuple[int, ...], hashes: dict[str, list[str]]) -> str:
    """Return users.acl with each user's hashes, and without what an older Redis would not start with.

    Raises: Refused for a user without a password.
    """
    lines = []
    for line in filter(None, text.splitlines()):
        user = line.split()[1]
        if "{passwords}" in line and not hashes.get(user):
            raise Refused(f"user {user} has no password: {SECRETS}/redis_{user} is missing")
        line = line.replace("{passwords}", " ".join(f"#{found}" for found in hashes.get(user, [])))
        # Known since 7.2; an unknown word in the file keeps Redis from starting.
        lines.append(line if redis_version >= (7, 2) else line.replace(" +client|setinfo", ""))
    return "\n".join(lines) + "\n"


def tried(flavour: str, conf: Path, acl: str, secrets: Path = SECRETS) -> tuple[dict[str, str], list[str]]:
    """Return settings and users of a Redis that was started with the candidates, for a moment, apart from others.

    Raises: Refused with what it said when it does not start.
    """
    folder = Path(tempfile.mkdtemp(prefix="kit-redis-trial-"))
    own = {"port": "0", "unixsocket": str(folder / "socket"), "dir": str(folder), "aclfile": str(folder / "users.acl")}
    own |= {"pidfile": str(folder / "pid"), "logfile": "", "appendonly": "no", "supervised": "no", "bind": "127.0.0.1"}
    (folder / "users.acl").write_text(acl)
    # Without the lines it must have for itself: some, such as bind, would only be added to.
    lines = [line for line in conf.read_text().splitlines() if line.partition(" ")[0] not in OF_THE_TRIAL]
    (folder / "conf").write_text("\n".join([*lines, *(f'{name} "{value}"' for name, value in own.items())]) + "\n")
    with (folder / "log").open("wb") as log:
        trial = subprocess.Popen([f"{flavour}-server", str(folder / "conf")], stdout=log, stderr=log, cwd=folder)
    try:
        connection = answering(trial, folder)
        authenticate(connection, secrets)
        return connection.config() | written(conf), sorted(connection("ACL", "LIST"))
    finally:
        trial.kill()
        trial.wait()
        shutil.rmtree(folder)


def answering(trial: subprocess.Popen, folder: Path) -> Redis:
    """Return a connection to the trial once it answers.

    Raises: Refused; it may have listened for a moment before it read what it does not understand.
    """
    deadline = time.monotonic() + ANSWER_S
    while trial.poll() is None and time.monotonic() < deadline:
        try:
            connection = Redis(str(folder / "socket"))
            with contextlib.suppress(Refused):  # an answer, all the same
                connection("PING")
            return connection
        except OSError:
            time.sleep(0.02)
    raise Refused("the candidates were refused: " + (folder / "log").read_text()[-1500:])


def written(conf: Path) -> dict[str, str]:
    """Return those settings that the trial has for itself, as the candidate has them."""
    pairs = (line.split(" ", 1) for line in conf.read_text().splitlines() if " " in line and not line.startswith("#"))
    return {name: value.strip('"') for name, value in pairs if name in OF_THE_TRIAL}


def signed_in(path: str, flavour: str) -> Redis:
    """Return a connection to the running Redis: as admin, or as anybody to one that knows no users yet."""
    if not Path(path).exists():  # Debian's own configuration, where it lies elsewhere
        path = f"/run/{flavour}/{flavour}-server.sock"
    connection = Redis(path) if Path(path).exists() else PortRedis()
    try:
        authenticate(connection)
    except Refused as refused:
        if not str(refused).startswith(("WRONGPASS", "ERR")):
            raise
    return connection


class PortRedis(Redis):
    """The same by the loopback: how Debian's own configuration is reached."""

    def __init__(self):
        self._socket = socket.create_connection(("127.0.0.1", 6379), timeout=ANSWER_S)
        self._file = self._socket.makefile("rb")


def authenticate(connection: Redis, secrets: Path = SECRETS) -> None:
    """Sign in as admin, with the new password or, when a rotation was cut off, the old one."""
    words = [
        file.read_text().strip() for file in (secrets / "redis_admin", secrets / "redis_admin.old") if file.exists()
    ]
    for number, word in enumerate(words, 1):
        try:
            connection("AUTH", "admin", word)
            return
        except Refused:
            if number == len(words):
                raise


def turn_on_append_only(live: Redis) -> None:
    """Have all data written to the append-only file; only then may a start read that instead of the snapshot."""
    live("CONFIG", "SET", "appendonly", "yes")
    deadline = time.monotonic() + REWRITE_S
    while True:
        found = dict(line.split(":", 1) for line in live("INFO", "persistence").splitlines() if ":" in line)
        is_busy = found["aof_rewrite_in_progress"] != "0" or found["aof_rewrite_scheduled"] != "0"
        if not is_busy and found["aof_last_bgrewrite_status"] == "ok":
            return
        if not is_busy or time.monotonic() > deadline:
            raise Refused("the append-only file could not be written; is the disk full?")
        time.sleep(0.1)


def set_live(live: Redis, name: str, value: str) -> bool:
    """Change a setting while it runs, and tell whether that was possible."""
    try:
        live("CONFIG", "SET", name, value)
    except Refused:
        return False
    return True


def apply_users(live: Redis, wanted_acl: str, users: list[str], *, is_check: bool):
    """Yield the users that change. One by one rather than by ACL LOAD, which ends everybody's connections on 7.0."""
    now = {line.split()[1]: line for line in live("ACL", "LIST")}
    lines = {line.split()[1]: line.split()[2:] for line in wanted_acl.splitlines()}
    for line in users:
        name = line.split()[1]
        if rights(now.pop(name, "")) != rights(line):
            yield f"user {name}: rights or password"
            if not is_check:
                live("ACL", "SETUSER", name, "reset", *lines[name])
    for name in now:
        yield f"user {name}: removed"
        if not is_check:
            live("ACL", "DELUSER", name)


def rights(line: str) -> list[list[str]]:
    """Return what a line of ACL LIST says, in an order of its own: Redis 7.0 tells it in another one at each start."""
    groups = [re.sub(r"\([^)]*\)", " ", line), *re.findall(r"\(([^)]*)\)", line)]
    return sorted(sorted(group.split()) for group in groups)


def install(target: Path, text: str, group: str) -> None:
    """Write a file for root and a group, whole or not at all; for nobody else, not even for a moment."""
    new = target.with_name(target.name + ".new")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    shutil.chown(new, "root", group)
    new.chmod(0o640 if group != "root" else 0o600)
    os.replace(new, target)


if __name__ == "__main__":
    sys.exit(main())
