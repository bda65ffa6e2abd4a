"""Run in the sandbox of a role's unit, this tries what a process that was taken over would try. Prints what worked."""

import ctypes
import glob
import mmap
import os
import socket
import sys
from pathlib import Path

import django
import psycopg
from django.db import Error, connection

ROLE, DATABASE = sys.argv[1:3]
LIMITS = {"web": ("10s", "3s")}  # of a statement, and of waiting for a lock; ids: P-06
OTHERS_LIMITS = ("0", "10s")
CLONE_NEWUSER = 0x10000000


def main() -> None:
    """Print a line for each thing that worked and must not, and for what must work and did not."""
    for name, attempt in attempts().items():
        try:
            attempt()
        except (OSError, ValueError, psycopg.Error):
            continue
        print(f"it could {name}")
    for name, need in needs().items():
        try:
            need()
        except (OSError, psycopg.Error, Error) as error:
            print(f"it could not {name}: {error}")


def attempts() -> dict:
    """Return what has to fail."""
    found = {
        "write below /etc": lambda: Path("/etc/kit-probe").touch(),
        "write below its release": lambda: Path("kit-probe").touch(),
        "read the secrets of others": lambda: Path("/etc/kit/secrets/other_key").read_bytes(),
        "list the secrets": lambda: os.listdir("/etc/kit/secrets"),
        "read what another unit was handed": read_credentials_of_others,
        "read the password file": lambda: Path("/etc/shadow").read_bytes(),
        "become root": lambda: os.setuid(0),
        "write and then run memory": lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_WRITE | mmap.PROT_EXEC),
        "make a namespace": make_namespace,
        "see other users' processes": see_others,
        "open raw sockets": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
        "make a program that runs as its owner": make_setuid,
    }
    for other in {"web", "relay", "worker", "beat", "owner"} - {ROLE}:
        found[f"be kit_{other} in the database"] = lambda other=other: connect(f"kit_{other}")
    if ROLE in ("web", "beat"):
        found["reach Redis"] = lambda: socket.create_connection(("127.0.0.1", 6379), 2)
    if ROLE in ("relay", "flower"):
        found["reach other hosts"] = lambda: socket.create_connection(("192.0.2.1", 80), 2)
    if ROLE != "worker":
        found["write users' files"] = lambda: Path("/var/lib/kit/media/.kit-probe").touch()
    if ROLE == "flower":
        found["reach the database"] = lambda: connect("kit_flower")
    return found


def needs() -> dict:
    """Return what has to work; a sandbox that refuses everything would pass the rest."""
    if ROLE == "flower":
        return {"open a socket to this host": lambda: socket.create_connection(("127.0.0.1", 6379), 2)}
    found = {"reach the database as itself": lambda: connect(f"kit_{ROLE}")}
    found["get the limits of its sessions (P-06)"] = look_at_limits
    if ROLE == "worker":
        found["write users' files"] = write_media
    return found


def connect(user: str) -> None:
    """Connect to the database as somebody."""
    psycopg.connect(f"host=/run/postgresql dbname={DATABASE} user={user} connect_timeout=5").close()


def look_at_limits() -> None:
    """Ask for the limits that a session of the app has, opened as the app opens it."""
    sys.path.insert(0, os.getcwd())
    os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
    django.setup()
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('statement_timeout'), current_setting('lock_timeout')")
        found = cursor.fetchone()
    if found != LIMITS.get(ROLE, OTHERS_LIMITS):
        raise OSError(f"statement and lock end after {' and '.join(found)}")


def read_credentials_of_others() -> None:
    """Read any credential that lies in another unit's folder."""
    mine = os.environ["CREDENTIALS_DIRECTORY"]
    for path in glob.glob("/run/credentials/*/*"):
        if not path.startswith(mine):
            Path(path).read_bytes()
            return
    raise OSError("none can be seen")


def make_namespace() -> None:
    """Leave the namespaces it was put into."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER):
        raise OSError(ctypes.get_errno(), "refused")


def see_others() -> None:
    """See processes of other users."""
    if not any(os.stat(path).st_uid != os.getuid() for path in glob.glob("/proc/[0-9]*")):
        raise OSError("none can be seen")


def make_setuid() -> None:
    """Make a file that would run as its owner."""
    path = Path("/tmp/kit-probe")
    path.touch()
    path.chmod(0o4755)


def write_media() -> None:
    """Write where the worker keeps users' files."""
    path = Path("/var/lib/kit/media/.kit-probe")
    path.touch()
    path.unlink()


if __name__ == "__main__":
    main()
