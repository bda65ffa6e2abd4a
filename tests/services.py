"""Real servers for tests: on free ports of this host, with data folders of their own, stopped by pid."""

import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import psycopg
import pytest
import redis

from tasks.child import die_with_parent

SBIN = "/usr/local/sbin:/usr/sbin:/sbin"  # not in everybody's PATH
HOST = "127.0.0.1"


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


def rung() -> str:
    """Return which rung of the ladder these tests run on, e.g. postgresql+redis."""
    database = os.environ.get("DATABASE_URL", "sqlite:").split(":")[0]
    broker = os.environ.get("CELERY_BROKER_URL", "filesystem:").split(":")[0]
    return f"{database}+{broker}"


def need(program: str, package: str) -> str:
    """Return the program's path; without it fail in CI, and elsewhere skip and say what to install."""
    if path := shutil.which(program, path=f"{os.environ['PATH']}:{SBIN}"):
        return path
    sentence = f"{program} is missing: install {package}"
    return pytest.fail(sentence) if os.environ.get("CI") else pytest.skip(sentence)


class Server:
    """One server process. Everything about it is in its folder, so that another process can stop and start it."""

    program = ""
    package = ""
    stop_signal = signal.SIGTERM
    kill_signal = signal.SIGKILL

    def __init__(self, folder: Path):
        self.folder = folder
        self._process: subprocess.Popen | None = None

    @classmethod
    def binary(cls) -> str | None:
        """Return where the program is, None when it is not installed."""
        return shutil.which(cls.program)

    @property
    def port(self) -> int:
        """Return its port, the same for as long as the folder exists."""
        file = self.folder / "port"
        if not file.exists():
            file.write_text(str(free_port()))
        return int(file.read_text())

    @property
    def pid(self) -> int:
        """Return the pid of the last start."""
        return int((self.folder / "pid").read_text())

    def start(self) -> "Server":
        """Start it on its port and data, and wait until it answers."""
        self._process = self._spawn(self.command())
        (self.folder / "pid").write_text(str(self._process.pid))
        self._wait(self.answers, "answers")
        return self

    def stop(self) -> None:
        """Stop it in order and wait for its end."""
        self._end(self.stop_signal)

    def kill(self) -> None:
        """Let it crash and wait for its end."""
        self._end(self.kill_signal)

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing answers. Undone by resume()."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen server go on."""
        os.kill(self.pid, signal.SIGCONT)

    @property
    def is_running(self) -> bool:
        """Tell whether its process lives; one that nobody has waited for yet does not count."""
        if self._process:
            self._process.poll()
        found = subprocess.run(["ps", "-o", "stat=", "-p", str(self.pid)], capture_output=True, text=True)
        return found.returncode == 0 and not found.stdout.startswith("Z")

    def _end(self, signal_number: int) -> None:
        if self.is_running:
            os.kill(self.pid, signal_number)
        self._wait(lambda: not self.is_running, "ends")

    def _wait(self, condition, what: str) -> None:
        deadline = time.monotonic() + 30
        while not condition():
            if time.monotonic() > deadline:
                log = (self.folder / "log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"{self.program} on port {self.port}: not within 30 s: {what}\n{log}")
            time.sleep(0.05)

    def _spawn(self, command: list[str], **popen) -> subprocess.Popen:
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent(),
                **popen,
            )


class Redis(Server):
    """A Redis that behaves as the deployed one: append-only file, no eviction."""

    program = "redis-server"
    package = "redis-server (Debian) or redis (Homebrew)"

    def command(self) -> list[str]:
        """Return how it is started."""
        options = {"bind": HOST, "port": self.port, "dir": self.folder, "appendonly": "yes", "appendfsync": "everysec"}
        options |= {"save": "", "maxmemory-policy": "noeviction"}
        return [self.binary(), *(word for name, value in options.items() for word in (f"--{name}", str(value)))]

    @property
    def url(self) -> str:
        """Return its address for CELERY_BROKER_URL."""
        return f"redis://{HOST}:{self.port}/0"

    def client(self) -> redis.Redis:
        """Return a connection for looking and flushing."""
        return redis.Redis(host=HOST, port=self.port, socket_timeout=5, socket_connect_timeout=2)

    def flush(self) -> None:
        """Forget everything, as an operator's FLUSHALL does."""
        with self.client() as client:
            client.flushall()

    def lose_volume(self) -> None:
        """Throw the data of a stopped server away; it starts empty, on the same port."""
        shutil.rmtree(self.folder / "appendonlydir")

    def try_to_save(self) -> None:
        """Write a snapshot, and wait until that has succeeded or failed."""
        with self.client() as client:
            client.bgsave()
            self._wait(lambda: not client.info("persistence")["rdb_bgsave_in_progress"], "has tried to save")

    def set(self, name: str, value: str | int) -> None:
        """Change its configuration while it runs."""
        with self.client() as client:
            client.config_set(name, value)

    def answers(self) -> bool:
        """Tell whether it takes commands."""
        try:
            with self.client() as client:
                return client.ping()
        except redis.ConnectionError:  # also while it loads its data
            return False


class Postgresql(Server):
    """A PostgreSQL of our own; it refuses to run as root, so root starts it as user postgres."""

    program = "postgres"
    package = "postgresql"
    stop_signal = signal.SIGINT  # "fast": ends the sessions
    kill_signal = signal.SIGQUIT  # "immediate": a crash with recovery, without orphans that hold its memory

    @classmethod
    def binary(cls) -> str | None:
        """Return the newest one; Debian keeps it off the path."""
        versions = glob.glob("/usr/lib/postgresql/*/bin/postgres")
        return max(versions, key=lambda path: int(path.split("/")[4])) if versions else shutil.which(cls.program)

    @property
    def url(self) -> str:
        """Return its address for DATABASE_URL."""
        return f"postgresql://postgres@{HOST}:{self.port}/postgres"

    def command(self) -> list[str]:
        """Return how it is started; the data folder is made first if there is none.

        fsync is off, for tests only: what was committed survives a crash of PostgreSQL, not one of the machine.
        """
        data = self.folder / "data"
        if not data.exists():
            if os.geteuid() == 0:
                shutil.chown(self.folder, "postgres")
            initdb = [str(Path(self.binary()).parent / "initdb"), "-D", str(data), "-U", "postgres"]
            made = self._spawn([*initdb, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"])
            if made.wait(timeout=60):
                raise RuntimeError("initdb failed:\n" + (self.folder / "log").read_text()[-2000:])
        options = {"listen_addresses": HOST, "port": self.port, "max_connections": 200, "fsync": "off"}
        options |= {"unix_socket_directories": "", "full_page_writes": "off"}
        return [self.binary(), "-D", str(data), *(word for n, v in options.items() for word in ("-c", f"{n}={v}"))]

    def answers(self) -> bool:
        """Tell whether it takes sessions."""
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
            return True
        except psycopg.OperationalError:
            return False

    def _spawn(self, command: list[str], **popen) -> subprocess.Popen:
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            popen |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        return super()._spawn(command, **popen)
