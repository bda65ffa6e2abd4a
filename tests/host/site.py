"""What a person has who runs the kit: a clone of it with an inventory, and `make`."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from tests.host.machine import DOMAIN, ROOT, Machine
from tests.host.network import GATEWAY
from tests.host.shell import CACHE, CommandFailed, crowding, making, run, say

SMTP_PORT = 2525
TRIAL = Path(__file__).parent / "trial"
# The trial feature becomes part of the clone as any feature would.
INSERTIONS = {
    '    "project.billing",\n': '    "project.billing",\n    "project.trial",\n',
    "PASSWORD_HASHERS = [\n": 'PASSWORD_HASHERS = [\n    "project.trial.hashers.LoadHasher",\n',
}
AUTHOR = ["-c", "user.name=Host suite", "-c", "user.email=suite@example.com"]


@dataclass(frozen=True)
class Outcome:
    """How a make target ended.

    Units: seconds.
    """

    target: str
    code: int
    text: str
    seconds: float

    @property
    def changed(self) -> int:
        """Return how many of Ansible's tasks changed something.

        Raises: AssertionError when it does not say.
        """
        found = re.findall(r"\bchanged=(\d+)", self.text)
        assert found, f"make {self.target} prints no recap:\n{self.end}"
        return sum(map(int, found))

    @property
    def end(self) -> str:
        """Return the last lines of what it printed."""
        return "\n".join(self.text.splitlines()[-40:])

    def changes(self) -> str:
        """Return the names of the tasks that changed something."""
        task, found = "", []
        for line in self.text.splitlines():
            if line.startswith(("TASK [", "RUNNING HANDLER [")):
                task = line.partition("[")[2].rpartition("]")[0]
            elif line.startswith("changed: "):
                found.append(task)
        return "; ".join(found)


class Site:
    """A clone of this repository whose origin is a copy of it, so that pushing is possible and touches nothing."""

    def __init__(self, machine: Machine):
        self.machine = machine
        self.origin = machine.folder / "origin.git"
        self.clone = machine.folder / "clone"
        self.settings: dict[str, object] = {}

    def create(self) -> None:
        """Clone what is committed here, add the trial feature, and write the inventory."""
        for folder in (self.origin, self.clone):
            shutil.rmtree(folder, ignore_errors=True)
        run(["git", "clone", "-q", "--bare", ROOT, self.origin])
        head = run(["git", "-C", ROOT, "rev-parse", "HEAD"]).strip()
        run(["git", "-C", self.origin, "update-ref", "refs/heads/site", head])
        run(["git", "clone", "-q", "-b", "site", self.origin, self.clone])
        (self.clone / ".venv").symlink_to(deploy_venv(self.clone))
        files = {f"project/trial/{file.name}": file.read_text() for file in sorted(TRIAL.glob("*.py"))}
        self.commit("trial: Add jobs that behave badly.", files | {"project/settings.py": with_trial(self.clone)})
        self.write_inventory()

    def commit(self, subject: str, files: Mapping[str, str]) -> str:
        """Commit and push files, and return the release's name."""
        for name, text in files.items():
            path = self.clone / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "--", *files)
        self.git("commit", "-q", "-m", subject)
        self.git("push", "-q")
        return self.head()

    def take_back(self) -> None:
        """Revert the newest commit, as somebody would whose release failed."""
        self.git("revert", "--no-edit", "HEAD")
        self.git("push", "-q")

    def head(self) -> str:
        """Return the name of the release that a deploy would make."""
        return self.git("rev-parse", "--short=12", "HEAD").strip()

    def git(self, *words: str) -> str:
        """Run git in the clone."""
        return run(["git", "-C", self.clone, *AUTHOR, *words])

    def write_inventory(self) -> None:
        """Write what the operator fills in; JSON is YAML."""
        host = {
            "ansible_host": self.machine.address,
            "ansible_ssh_common_args": f"-F {self.machine.ssh_config}",
            "kit_domain": DOMAIN,
            "kit_email": "ops@example.com",
            "kit_smtp_host": GATEWAY,
            "kit_smtp_port": SMTP_PORT,
            "kit_smtp_tls": False,
            "kit_tls": "selfsigned",
        }
        inventory = {"all": {"hosts": {"kit": host | self.settings}}}
        (self.clone / "ansible/inventory").write_text(json.dumps(inventory, indent=2) + "\n")

    def make(self, target: str, *words: str, timeout_s: float = 900) -> Outcome:
        """Run a make target as a person at a computer would, and return how it ended."""
        log = self.machine.folder / "make.log"
        command = self.machine.as_person("make", "-C", self.clone, target, *words)
        started = time.monotonic()
        with open(log, "a+") as output:
            begin = output.seek(0, os.SEEK_END)
            output.write(f"== make {target} {' '.join(words)}\n")
            output.flush()
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.environment(),
                start_new_session=True,
            )
            try:
                code = process.wait(timeout_s * crowding())
            except subprocess.TimeoutExpired as late:
                raise CommandFailed(f"make {target} has not ended within {timeout_s:.0f} s; see {log}.") from late
            finally:
                end_group(process)
            output.seek(begin)
            return Outcome(target, code, output.read(), time.monotonic() - started)

    def must_make(self, target: str, *words: str, timeout_s: float = 900) -> Outcome:
        """Run a make target that has to succeed.

        Raises: AssertionError, with its last lines.
        """
        outcome = self.make(target, *words, timeout_s=timeout_s)
        assert outcome.code == 0, f"make {target} ended with {outcome.code}:\n{outcome.end}"
        say(f"make {' '.join([target, *words])}: {outcome.seconds:.0f} s")
        return outcome

    def environment(self) -> dict[str, str]:
        """Return a person's environment: a home of its own, and SSH connections shared with nobody else's machine."""
        home = self.machine.folder / "home"
        home.mkdir(exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "KIT_", "MAKE"))}
        return kept | {"HOME": str(home), "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.machine.folder / "cp")}


def end_group(process: subprocess.Popen) -> None:
    """Interrupt a program and all that it has started, as Ctrl-C does, unless it has ended."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(60)


def with_trial(clone: Path) -> str:
    """Return the settings with the trial feature in them."""
    text = (clone / "project/settings.py").read_text()
    for old, new in INSERTIONS.items():
        assert text.count(old) == 1, f"project/settings.py has no single line {old.strip()!r}: mend INSERTIONS."
        text = text.replace(old, new)
    return text


def deploy_venv(clone: Path) -> Path:
    """Return the virtual environment that `make deploy` makes for itself, kept for the next clone."""
    requirements = (clone / "requirements-deploy.txt").read_bytes()
    kept = CACHE / f"deploy-{sha256(requirements).hexdigest()[:12]}"
    with making(kept / ".venv"):
        (kept / "deploy").mkdir(exist_ok=True)
        (kept / "requirements-deploy.txt").write_bytes(requirements)
        shutil.copy(clone / "deploy/prepare.py", kept / "deploy/prepare.py")
        run([sys.executable, kept / "deploy/prepare.py", "requirements-deploy.txt"], timeout_s=600)
    return kept / ".venv"
