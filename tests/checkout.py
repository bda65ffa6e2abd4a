"""A copy of the kit as a newcomer has it: cloned, nothing installed, and `make demo` run in it."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from tests.kit import ROOT, Process, wait_until
from tests.services import free_port

# What tells pip how this machine reaches packages is the machine's, not the newcomer's.
OF_THE_MACHINE = re.compile(r"PIP_\w+|\w+_proxy|SSL_CERT_\w+|REQUESTS_CA_BUNDLE|LANG", re.IGNORECASE)


def copy_checkout(target: Path) -> None:
    """Clone the repository; with uncommitted changes, copy what would be committed."""
    if not git("status", "--porcelain"):
        git("clone", "--quiet", str(ROOT), str(target))
        return
    for name in filter(None, git("ls-files", "-co", "--exclude-standard", "-z").split("\0")):
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def git(*arguments: str) -> str:
    """Run git in the repository and return what it printed."""
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Checkout:
    """A fresh copy with an empty home folder, and so an empty cache."""

    def __init__(self, base: Path):
        self.base, self.folder = base, base / "kit"
        self.port, self.flower_port = free_port(), free_port()
        (base / "home").mkdir()
        copy_checkout(self.folder)

    @property
    def env(self) -> dict[str, str]:
        """Return a newcomer's environment: a Python on the path and little else."""
        python = Path(sys._base_executable).resolve().parent
        machine = {name: value for name, value in os.environ.items() if OF_THE_MACHINE.fullmatch(name)}
        return {"PATH": f"{python}:/usr/local/bin:/usr/bin:/bin", "HOME": str(self.base / "home"), **machine}

    @property
    def site(self) -> str:
        """Return the address of the site."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def flower(self) -> str:
        """Return the address of Flower."""
        return f"http://127.0.0.1:{self.flower_port}/"

    def make(self, *arguments: str) -> Process:
        """Start make in the copy."""
        log = self.base / f"make-{len(list(self.base.glob('make-*')))}.log"
        return Process("make", ["make", *arguments], self.env, log, cwd=self.folder)

    def demo(self, *arguments: str) -> "Demo":
        """Start the demo on free ports and wait until its worker is ready."""
        process = self.make("demo", f"PORT={self.port}", f"FLOWER_PORT={self.flower_port}", *arguments)
        demo = Demo(process, self)
        process.wait_for_line("Login", timeout=240)
        process.wait_for_line(" ready.", timeout=60)
        return demo


class Demo:
    """A running `make demo`."""

    def __init__(self, process: Process, checkout: Checkout):
        self.process, self.checkout = process, checkout

    @property
    def login(self) -> tuple[str, str]:
        """Return the printed staff login."""
        return tuple(self.process.wait_for_line("Login").split()[1:3])

    def press_ctrl_c(self) -> None:
        """Do what a terminal does: SIGINT to the whole group in its foreground; wait for the end."""
        os.killpg(self.process.pid, signal.SIGINT)
        self.process.wait(timeout=45)

    def left_over(self) -> list[str]:
        """Return the command lines of processes that still live in the copy."""
        return [command for pid, command in processes_in(self.checkout.folder)]

    def stop(self) -> None:
        """Stop it however it is."""
        if self.process.is_running:
            self.press_ctrl_c()
        wait_until(lambda: not self.left_over(), 10, f"no process is left: {self.left_over()}")


def processes_in(folder: Path) -> list[tuple[int, str]]:
    """Return pid and command line of the processes whose working folder is in the given one."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if Path(os.readlink(entry / "cwd")).is_relative_to(folder):
                found.append((int(entry.name), (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it ended while we looked, or is not ours
    return found
