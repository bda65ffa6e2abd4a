"""Back up the site, prove that the backup can be restored, and restore it.

A backup is one restic snapshot: a dump of the database, what the dump must contain, media, secrets and the certificate.
It needs nothing but Python's standard library, restic and PostgreSQL's programs. Units run the parts, each with no more
rights than it needs: `backup` reads the database and files and has no network, `offsite` has the network and sees
nothing but encrypted files, `drill` has neither.
"""

import argparse
import contextlib
import fcntl
import glob
import grp
import json
import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

DATABASE = "kit"
SOCKET = "/run/postgresql"
SECRETS = Path("/etc/kit/secrets")
TLS = Path("/etc/kit/tls")
MEDIA = Path("/var/lib/kit/media")
RESTORING = Path(
    "/var/lib/kit/restoring"
)  # "begun", then "data" when the data are back; gone once a release serves them
REPOSITORY = Path("/var/backups/kit/restic")
STATE = Path("/var/lib/kit/backup")  # backup.json, offsite.json, drill.json: the last good one of each
WORK = STATE / "work"
DUMP, MANIFEST = WORK / "database.dump", WORK / "manifest.json"
CURRENT = Path("/srv/kit/current")

KEEP = ("--keep-daily", "7", "--keep-weekly", "4", "--keep-monthly", "6")
LONG_S = 4 * 3600  # nothing here may hang for good
SHORT_S = 120

# What a restored database is compared by, as one line of JSON; the same question to the one that was dumped.
FACTS = """
SELECT json_build_object(
    'rows', (SELECT coalesce(json_object_agg(c.relname, (xpath('/row/n/text()', query_to_xml(
        format('SELECT count(*) AS n FROM %I.%I', n.nspname, c.relname), false, true, '')))[1]::text::bigint
        ORDER BY c.relname), '{}')
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND n.nspname = 'public'),
    'sequences', (SELECT coalesce(json_object_agg(sequencename, last_value ORDER BY sequencename), '{}')
        FROM pg_sequences WHERE schemaname = 'public'),
    'foreign_keys', (SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND convalidated),
    'invalid_foreign_keys', (SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND NOT convalidated),
    'indexes', (SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
        JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND i.indisvalid)
);
"""
JOB_STATES = """
SELECT coalesce(json_object_agg(state, n ORDER BY state), '{}')
    FROM (SELECT state, count(*) AS n FROM tasks_job GROUP BY state) AS counted;
"""
# As tasks.pauses.pause does it.
HOLD = """
INSERT INTO tasks_pause (what, name, by) VALUES ('queue', '{queue}', 'the restore') ON CONFLICT DO NOTHING;
UPDATE tasks_job SET state = 'waiting', relayed_at = NULL, relays = 0 WHERE queue = '{queue}' AND state = 'relayed';
"""


class Failure(Exception):
    """What is wrong and what to do, in words."""


# -- programs ------------------------------------------------------------------------------------


def run(command: list[str], *, what: str, timeout_s: int = LONG_S, **options) -> str:
    """Run a program and return what it printed.

    Raises: Failure, with the end of what the program complained of.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, **options)
    except subprocess.TimeoutExpired:
        raise Failure(f"{what}: {command[0]} did not end within {timeout_s} s.") from None
    except OSError as error:
        raise Failure(f"{what}: {command[0]} cannot be run ({error.strerror}); deploy again.") from None
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())[-600:]
        raise Failure(f"{what}: {command[0]} failed ({done.returncode}): {said}")
    return done.stdout


def credential(name: str) -> Path:
    """Return the file of a secret: handed over by systemd, or the original for root at a shell."""
    return Path(os.environ.get("CREDENTIALS_DIRECTORY", SECRETS)) / name


def restic(*arguments: str, what: str, repository: str = "", password: Path | None = None, **options) -> str:
    """Run restic on a repository, the host's own if none is named."""
    repository = repository or str(REPOSITORY)
    environment = os.environ | {
        "RESTIC_REPOSITORY": repository,
        "RESTIC_PASSWORD_FILE": str(password or credential("backup_password")),
        "GOGC": "20",  # it shares a small machine with the site
    }
    if is_elsewhere(repository):
        environment |= elsewhere_environment()
        arguments = (*ssh_option(repository), *arguments)
    if is_elsewhere(repository) and not is_root():  # what root leaves in the cache the units could not read
        environment["RESTIC_CACHE_DIR"] = str(STATE / "cache")
    else:
        arguments = ("--no-cache", *arguments)
    return run(["restic", *arguments], what=what, env=environment, **options)


def is_elsewhere(repository: str) -> bool:
    """Tell a repository of restic's own protocols from a folder of this host."""
    return not repository.startswith("/")


def is_root() -> bool:
    """Tell a person at a shell, or Ansible, from the units."""
    return os.geteuid() == 0


def elsewhere_environment() -> dict[str, str]:
    """Return the keys of the repository elsewhere, as NAME=value lines in a secret."""
    path = credential("backup_environment")
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(line.split("=", 1) for line in lines if "=" in line and line[0] != "#")


def ssh_option(repository: str) -> tuple[str, ...]:
    """Return how restic reaches an sftp repository: with the host's own key for that, and no question asked."""
    if not repository.startswith("sftp:"):
        return ()
    host = repository.removeprefix("sftp:").removeprefix("//").split(":")[0].split("/")[0]
    command = ["ssh", "-i", str(credential("backup_ssh_key")), "-o", "BatchMode=yes", "-o", "ConnectTimeout=20"]
    command += ["-o", "StrictHostKeyChecking=accept-new"]
    command += [] if is_root() else ["-o", f"UserKnownHostsFile={STATE}/known_hosts"]
    return ("-o", f"sftp.command={shlex.join([*command, host, '-s', 'sftp'])}")


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Let one of backup, offsite, drill and restore run at a time; the others wait.

    Locks: a file, until the process ends.
    """
    STATE.mkdir(parents=True, exist_ok=True)
    with open(os.open(STATE / "lock", os.O_RDWR | os.O_CREAT, 0o600), "r+") as lock:
        if is_root():  # whoever comes first, the units must be able to open it
            os.fchown(lock.fileno(), STATE.stat().st_uid, STATE.stat().st_gid)
        deadline = time.monotonic() + LONG_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Failure("Another backup, drill or restore runs for hours: look with `kit status`.") from None
                time.sleep(1)
        yield


@contextlib.contextmanager
def work_folder() -> Iterator[None]:
    """Give an empty folder that nobody else reads, and leave nothing in it: it holds the dump in the clear."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(mode=0o700, parents=True)
    try:
        yield
    finally:
        shutil.rmtree(WORK)


def note(name: str, **facts) -> None:
    """Write down the last good one, for people and metrics; readers see the old file or the new."""
    new = STATE / f".{name}.new"
    new.write_text(json.dumps({"at": datetime.now(UTC).isoformat(timespec="seconds")} | facts) + "\n")
    new.chmod(0o644)
    new.rename(STATE / f"{name}.json")


def noted(name: str) -> dict:
    """Return what was written down; empty when there was none."""
    path = STATE / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


# -- backup --------------------------------------------------------------------------------------


class Session:
    """A session with the database that holds one view of it, so that the dump and the counts are of the same moment."""

    def __init__(self):
        command = ["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-h", SOCKET, "-U", "kit_backup", "-d", DATABASE]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def ask(self, statement: str) -> str:
        """Return the first line of the answer.

        Raises: Failure.
        """
        with contextlib.suppress(BrokenPipeError):  # what psql complained of says why
            self.process.stdin.write(statement + "\n")
            self.process.stdin.flush()
        if answer := self.process.stdout.readline().strip():
            return answer
        said = " ".join(self.process.communicate(timeout=SHORT_S)[1].split())[-600:]
        raise Failure(f"The database cannot be read: {said}")

    def __enter__(self):
        """Begin the view. The timeouts are for people's sessions, not for this one."""
        self.process.stdin.write("SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0;\n")
        self.process.stdin.write("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;\n")
        return self

    def __exit__(self, *error):
        """End it."""
        if self.process.poll() is None:
            self.process.communicate("ROLLBACK;\n", timeout=SHORT_S)


def take() -> None:
    """Take a backup into the host's repository, and look whether it can be read."""
    begun = time.monotonic()
    with alone(), work_folder():
        if is_half_restored():
            raise Failure(
                "A restore has begun here and not ended: no backup is taken of a half. Run `make restore` again."
            )
        manifest = dump()
        if not (REPOSITORY / "config").exists():
            restic("init", what="The repository was not made")
        restic("unlock", what="The repository is locked")  # only locks of processes that are gone
        paths = [str(path) for path in (SECRETS, TLS, MEDIA, DUMP, MANIFEST) if path.exists()]
        told = restic("backup", "--json", "--tag", "kit", "--host", "kit", *paths, what="The snapshot was not written")
        summary = json.loads(told.strip().splitlines()[-1])
        restic("forget", "--tag", "kit", "--group-by", "tags", *KEEP, "--prune", what="Old snapshots were not removed")
        restic("check", what="The repository is damaged; move it away and take a new backup")
        known = listed("latest", str(REPOSITORY))
    facts = {
        "took_s": round(time.monotonic() - begun, 1),
        "snapshot": summary["snapshot_id"][:8],
        "bytes": summary["total_bytes_processed"],
        "rows": sum(manifest["database"]["rows"].values()),
        "files": known,
    }
    note("backup", **facts)


def dump() -> dict:
    """Write the dump and its manifest, and return the manifest.

    Raises: Failure, also for a dump that does not list every table.
    """
    with Session() as session:
        snapshot = session.ask("SELECT pg_export_snapshot();")
        size = int(session.ask("SELECT pg_database_size(current_database());"))
        if shutil.disk_usage(WORK).free < 1.5 * size + 200_000_000:
            raise Failure(
                f"The disk has too little room for a dump of {size >> 20} MB: free some, or take a larger one."
            )
        facts = json.loads(session.ask(FACTS.replace("\n", " ")))
        if not facts["rows"]:
            raise Failure(
                "The database holds no tables: there is nothing to back up. Run `make deploy`, or `make restore`."
            )
        states = json.loads(session.ask(JOB_STATES.replace("\n", " "))) if "tasks_job" in facts["rows"] else {}
        # Not compressed: restic does that, and finds what has not changed since yesterday.
        command = ["pg_dump", "-h", SOCKET, "-U", "kit_backup", "-d", DATABASE, "-Fc", "-Z0"]
        run([*command, f"--snapshot={snapshot}", "-f", str(DUMP)], what="The database was not dumped")
    tables = run(["pg_restore", "-l", str(DUMP)], what="The dump cannot be read").count(" TABLE DATA ")
    if tables < len(facts["rows"]):
        raise Failure(f"The dump lists {tables} tables of {len(facts['rows'])}: it is not complete.")
    manifest = {
        "taken_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "release": CURRENT.resolve().name if CURRENT.exists() else "",
        "database": facts | {"job_states": states},
        "media_files": media_files(),
        "dump_bytes": DUMP.stat().st_size,
    }
    MANIFEST.write_text(json.dumps(manifest))
    return manifest


def media_files() -> int:
    """Return how many files of users lie here, counted as restic does: a link is none."""
    return sum(1 for path in MEDIA.rglob("*") if path.is_file() and not path.is_symlink())


def is_half_restored() -> bool:
    """Tell whether a restore was begun whose data are not back yet."""
    return RESTORING.exists() and RESTORING.read_text().strip() != "data"


def listed(snapshot: str, repository: str, **options) -> int:
    """Return how many files a snapshot holds."""
    told = restic("ls", "--json", snapshot, repository=repository, what="The snapshot cannot be listed", **options)
    return sum(1 for line in told.splitlines() if json.loads(line).get("type") == "file")


def copy_elsewhere() -> None:
    """Copy the snapshots to the repository elsewhere, and forget old ones there, too."""
    begun = time.monotonic()
    there = credential("backup_repository").read_text().strip()
    own = ("--from-repo", str(REPOSITORY), "--from-password-file", str(credential("backup_password")))
    with alone():
        try:
            restic("cat", "config", repository=there, what="There is no repository yet", timeout_s=SHORT_S)
        except Failure:
            restic("init", "--copy-chunker-params", *own, repository=there, what="The backup did not leave the host")
        restic("unlock", repository=there, what="The repository elsewhere is locked")
        restic("copy", *own, repository=there, what="The backup did not leave the host")
        restic(
            "forget", "--tag", "kit", "--group-by", "tags", *KEEP, "--prune", repository=there, what="Old copies stay"
        )
        note("offsite", took_s=round(time.monotonic() - begun, 1))


# -- drill ---------------------------------------------------------------------------------------


def drill() -> None:
    """Restore the latest backup into a PostgreSQL of its own, compare it with what was dumped, and throw it away."""
    begun = time.monotonic()
    with alone(), work_folder():
        restic("check", "--read-data-subset=10%", what="The repository is damaged; take a new backup")
        manifest = fetch("latest", str(REPOSITORY))
        with scratch_server() as socket:
            where = ["-h", str(socket), "-U", "drill", "-d", DATABASE]
            restore = ["pg_restore", *where, "--exit-on-error", "--no-owner", "--no-privileges", str(DUMP)]
            run(restore, what="The dump cannot be restored")
            ask = ["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", *where, "-c"]
            facts = json.loads(run([*ask, FACTS], what="The restored database cannot be read"))
            states = json.loads(run([*ask, JOB_STATES], what="Its jobs cannot be read")) if facts["rows"] else {}
        media = media_listed()
    compared = compare(manifest, facts | {"job_states": states}, media)
    note("drill", took_s=round(time.monotonic() - begun, 1), taken_at=manifest["taken_at"], compared=compared)


def fetch(snapshot: str, repository: str, **options) -> dict:
    """Bring the dump and its manifest from a snapshot to the work folder, and return the manifest."""
    wanted = ("--include", str(DUMP), "--include", str(MANIFEST))
    what = "The snapshot cannot be restored"
    restic("restore", snapshot, "--target", "/", *wanted, repository=repository, what=what, **options)
    if not DUMP.exists() or not MANIFEST.exists():
        raise Failure(f"Snapshot {snapshot} holds no database: it is none of the kit's.")
    return json.loads(MANIFEST.read_text())


def media_listed() -> int:
    """Return how many files of users the latest snapshot holds."""
    told = restic("ls", "--json", "--recursive", "latest", str(MEDIA), what="The snapshot cannot be listed")
    return sum(1 for line in told.splitlines() if json.loads(line).get("type") == "file")


def compare(manifest: dict, restored: dict, media: int) -> list[str]:
    """Return in words what was compared.

    Raises: Failure, which names each difference.
    """
    dumped = manifest["database"]
    wrong = [
        f"{what} {name}: {dumped[what].get(name)} when it was dumped, {restored[what].get(name)} restored"
        for what in ("rows", "sequences", "job_states")
        for name in sorted(dumped[what].keys() | restored[what].keys())
        if dumped[what].get(name) != restored[what].get(name)
    ]
    wrong += [
        f"{what}: {dumped[what]}, then {restored[what]}"
        for what in ("foreign_keys", "indexes")
        if dumped[what] != restored[what]
    ]
    if restored["invalid_foreign_keys"]:
        wrong.append(f"{restored['invalid_foreign_keys']} foreign keys do not hold")
    if media < manifest["media_files"]:
        wrong.append(f"{manifest['media_files']} files of users, {media} in the snapshot")
    if wrong:
        raise Failure("The restored backup is not what was dumped. " + "; ".join(wrong) + ". Take a new backup.")
    jobs = ", ".join(f"{n} {state}" for state, n in sorted(dumped["job_states"].items())) or "none"
    return [
        f"rows: {sum(dumped['rows'].values())} in {len(dumped['rows'])} tables, table by table",
        f"jobs: {jobs}",
        f"next numbers of {len(dumped['sequences'])} sequences",
        f"{dumped['foreign_keys']} foreign keys, checked anew; {dumped['indexes']} indexes",
        f"{media} files of users",
        "a tenth of the repository's data, byte by byte",
    ]


@contextlib.contextmanager
def scratch_server() -> Iterator[Path]:
    """Give the folder of a socket, behind it an empty PostgreSQL that nothing else knows of."""
    programs = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: int(path.split("/")[4]))
    if not programs:
        raise Failure("PostgreSQL's programs are missing on this host: deploy again.")
    folder, data = Path(programs[-1]).parent, WORK / "scratch"
    init = [programs[-1], "-D", str(data), "-U", "drill", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"]
    run(init, what="The scratch database was not made")
    settings = f"-c listen_addresses= -c unix_socket_directories={WORK} -c shared_buffers=16MB -c fsync=off"
    settings += " -c max_connections=5 -c jit=off -c autovacuum=off -c wal_level=minimal -c max_wal_senders=0"
    control = [str(folder / "pg_ctl"), "-D", str(data), "-w", "-t", str(SHORT_S), "-l", str(WORK / "scratch.log")]
    run([*control, "-o", settings, "start"], what="The scratch database did not start")
    try:
        run(["createdb", "-h", str(WORK), "-U", "drill", DATABASE], what="The scratch database was not made")
        yield WORK
    finally:
        run([*control, "-m", "immediate", "stop"], what="The scratch database did not stop")


# -- restore -------------------------------------------------------------------------------------


def restore_secrets(repository: str, password: Path, snapshot: str) -> None:
    """Put the secrets and the certificate of a snapshot into their places; Ansible does it before it makes any.

    What the backups themselves need stays as it is: it was just used.
    """
    with alone(), work_folder():
        wanted = ("--include", str(SECRETS), "--include", str(TLS))
        what = "The secrets were not restored"
        restic("restore", snapshot, "--target", str(WORK), *wanted, repository=repository, password=password, what=what)
        found = [path for path in below(WORK, SECRETS).glob("*") if is_own_secret(path)]
        if not found:
            raise Failure(f"Snapshot {snapshot} holds no secrets: it is none of the kit's.")
        for path in found:
            put(path, SECRETS, "root", 0o600)
        TLS.mkdir(mode=0o750, exist_ok=True)
        shutil.chown(TLS, "root", "www-data")
        for path in below(WORK, TLS).glob("site.*"):
            put(path, TLS, "www-data", 0o640)


def is_own_secret(path: Path) -> bool:
    """Tell what the host made up from what the inventory or the backups give."""
    return path.is_file() and not path.name.startswith(("backup_", "."))


def below(folder: Path, path: Path) -> Path:
    """Return where an absolute path lies in a folder that stands for the root."""
    return folder / path.relative_to("/")


def put(path: Path, folder: Path, group: str, mode: int) -> None:
    """Copy a file into a folder, never readable by more than it should be."""
    new = folder / f".{path.name}.restored"
    new.touch(mode=0o600)
    new.write_bytes(path.read_bytes())
    shutil.chown(new, "root", group)
    new.chmod(mode)
    new.rename(folder / path.name)


def restore_data(repository: str, password: Path, snapshot: str, hold: list[str]) -> dict:
    """Fill the empty database and media from a snapshot, and return its manifest.

    Raises: Failure, also for a database that is not empty.
    """
    with alone(), work_folder():
        manifest = fetch(snapshot, repository, password=password)
        as_owner = ["runuser", "-u", "postgres", "--"]
        ask = [*as_owner, "psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", DATABASE, "-c"]
        if json.loads(run([*ask, FACTS], what="The database cannot be read"))["rows"]:
            raise Failure("The database is not empty: nothing was restored. Use `make restore FROM=... CONFIRM=yes`.")
        with DUMP.open("rb") as dumped:
            command = [*as_owner, "pg_restore", "--exit-on-error", "--single-transaction", "-d", DATABASE]
            run(command, what="The database was not restored", stdin=dumped)
        restore_media(repository, password, snapshot)
        restored = json.loads(run([*ask, FACTS], what="The restored database cannot be read"))
        states = json.loads(run([*ask, JOB_STATES], what="Its jobs cannot be read"))
        compare(manifest, restored | {"job_states": states}, media_files())
        for queue in hold:
            run([*ask, HOLD.format(queue=queue)], what=f"The queue {queue} was not held")
    return manifest


def restore_media(repository: str, password: Path, snapshot: str) -> None:
    """Put back the files of users; what lay there is moved aside, since it belongs to rows that are gone.

    Raises: Failure rather than lose what was moved aside before.
    """
    if MEDIA.exists() and any(MEDIA.iterdir()):
        aside = MEDIA.with_name("media.before-restore")
        if not aside.exists():
            MEDIA.rename(aside)
        elif RESTORING.exists():  # the first try moved the old files there; these are what it brought
            shutil.rmtree(MEDIA)
        else:
            raise Failure(f"{aside} holds files of an earlier restore: move them away first.")
    given = {"repository": repository, "password": password, "what": "The files of users were not restored"}
    restic("restore", snapshot, "--target", "/", "--include", str(MEDIA), **given)
    if MEDIA.exists():  # numbers of users and groups are another host's
        for path in (MEDIA, *MEDIA.rglob("*")):
            give(path, "kit-worker", "kit-media")


def give(path: Path, user: str, group: str) -> None:
    """Give a file to a user; of a link the link itself, since a process taken over may have let it lead anywhere."""
    os.chown(path, pwd.getpwnam(user).pw_uid, grp.getgrnam(group).gr_gid, follow_symlinks=False)


# -- the commands --------------------------------------------------------------------------------


def start(unit: str, words: str) -> None:
    """Run a unit to its end; what it said is in the journal."""
    done = subprocess.run(["systemctl", "start", unit], timeout=LONG_S)
    if done.returncode:
        said = run(
            ["journalctl", "-u", unit, "-n", "5", "-o", "cat", "--no-pager"], what="The journal", timeout_s=SHORT_S
        )
        raise Failure(f"{words}. It said: {' '.join(said.split())[-600:]}")


def backup_command(arguments: argparse.Namespace) -> None:
    """Take a backup now, here and elsewhere."""
    start("kit-backup.service", "The backup failed")
    facts = noted("backup")
    print(
        f"Backup {facts['snapshot']}: {facts['rows']} rows and {facts['files']} files, {facts['bytes'] >> 10} KB, "
        f"in {facts['took_s']} s. It lies encrypted in {REPOSITORY} on the host."
    )
    if (SECRETS / "backup_repository").exists() and (SECRETS / "backup_repository").read_text().strip():
        start("kit-backup-offsite.service", "The copy elsewhere failed; the backup on the host is good")
        print(f"It was copied off the host in {noted('offsite')['took_s']} s.")
    else:
        print("It is on this host only: set kit_backup_repository, or fetch it with `make backup FETCH=1`.")


def drill_command(arguments: argparse.Namespace) -> None:
    """Prove that the latest backup can be restored."""
    start("kit-drill.service", "The drill failed")
    facts = noted("drill")
    print(f"The backup of {facts['taken_at']} was restored into a scratch database in {facts['took_s']} s. Compared:")
    for sentence in facts["compared"]:
        print(f"- {sentence}")


def restore_command(arguments: argparse.Namespace) -> None:
    """Restore a part of a snapshot; `make restore` does all of it, in the right order."""
    given = (arguments.repository, arguments.password_file, arguments.snapshot)
    if arguments.part == "secrets":
        restore_secrets(*given)
        print("The secrets and the certificate are back.")
        return
    manifest = restore_data(*given, arguments.hold)
    rows = sum(manifest["database"]["rows"].values())
    print(f"The backup of {manifest['taken_at']} is back: {rows} rows, {manifest['media_files']} files of users.")


def queue_name(text: str) -> str:
    """Return the name of a queue.

    Raises: ArgumentTypeError for what cannot be one.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,49}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no queue; write e.g. --hold mail")
    return text


def add_commands(commands) -> None:
    """Declare the subcommands; each sets `run`."""
    commands.add_parser("backup", help="take a backup now").set_defaults(run=backup_command)
    commands.add_parser("drill", help="restore the latest backup into a scratch database and compare").set_defaults(
        run=drill_command
    )
    restore = commands.add_parser("restore", help="restore a part of a backup; `make restore` does all of it")
    restore.add_argument("part", choices=("secrets", "data"))
    restore.add_argument("--repository", default=str(REPOSITORY), help="a restic repository (default: the host's own)")
    restore.add_argument("--password-file", type=Path, default=SECRETS / "backup_password")
    restore.add_argument("--snapshot", default="latest")
    restore.add_argument(
        "--hold", nargs="*", default=[], type=queue_name, help="queues to pause first", metavar="QUEUE"
    )
    restore.set_defaults(run=restore_command)
    for name, step in (("take", take), ("offsite", copy_elsewhere), ("practise", drill)):  # for the units
        commands.add_parser(name).set_defaults(run=lambda arguments, step=step: step())


def main() -> int:
    """Run a subcommand; what goes wrong is one sentence."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_commands(parser.add_subparsers(dest="command", required=True))
    arguments = parser.parse_args()
    try:
        arguments.run(arguments)
    except Failure as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
