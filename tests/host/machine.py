"""A Debian machine of one's own: start, stop, cut its power, keep its disk.

`python -m tests.host.machine [options] up|down|cut|ssh|inside|save|restore` handles one by hand; tests/host/README.md
shows how.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.host import image, kernel
from tests.host.network import Network, addresses
from tests.host.shell import CommandFailed, crowding, run, say, tail, wait_for

ROOT = Path(__file__).resolve().parents[2]
BOOT_S = 180
DOMAIN = "kit.example.com"
# A moment later, so that the connection that asks for it ends in order.
SOON = "systemd-run --quiet --collect --on-active=1 --timer-property=AccuracySec=100ms systemctl {}"


@dataclass
class Machine:
    """One guest with its disk, in a folder of its own.

    Units: memory is what the kernel takes as mem=, e.g. 1G. number is its place on the network, from 1.
    """

    folder: Path
    suite: str = "trixie"
    memory: str = "1G"
    number: int = 1
    network: Network = field(default=None)

    def __post_init__(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.network is None:
            self.network = Network(f"kit-{self.folder.name}", self.folder)

    @property
    def address(self) -> str:
        """Return its address in the network."""
        return addresses([self.number])[0]

    @property
    def disk(self) -> Path:
        """Return the disk's file."""
        return self.folder / "disk.img"

    @property
    def key(self) -> Path:
        """Return the SSH key that opens it."""
        return self.folder / "id_ed25519"

    @property
    def ssh_config(self) -> Path:
        """Return the file that `ssh -F` needs; root of this machine may use it from within the network."""
        return self.folder / "ssh_config"

    # -- disk ------------------------------------------------------------------------------------
    def new_disk(self) -> None:
        """Give it a bare Debian that knows our key, as a hoster's panel does."""
        shutil.rmtree(self.folder / "ssh", ignore_errors=True)
        self.write_keys()
        copy_sparse(image.build(self.suite), self.disk)
        for name in ("console.all", "power.log"):
            (self.folder / name).write_bytes(b"")
        network = f"[Match]\nName=eth0\n[Network]\nAddress={self.address}/24\nGateway=10.77.0.1\nIPv6AcceptRA=no\n"
        name = f"vds{self.number}"
        self.put("/root/.ssh/authorized_keys", self.key.with_suffix(".pub").read_text(), mode="0100600")
        self.put("/etc/systemd/network/20-eth0.network", network)
        self.put("/etc/hostname", f"{name}\n")
        self.put("/etc/hosts", f"127.0.0.1 localhost\n127.0.1.1 {name}\n")

    def write_keys(self) -> None:
        """Make the key and the client's configuration."""
        if not self.key.exists():
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "kit-test", "-f", self.key])
        lines = [
            f"Host vds {self.address}",
            f"  HostName {self.address}",
            "  User root",
            f"  IdentityFile {self.key}",
            "  IdentitiesOnly yes",
            "  StrictHostKeyChecking no",
            "  UserKnownHostsFile /dev/null",
            "  LogLevel ERROR",
            "  ConnectTimeout 10",
            "  ServerAliveInterval 10",
        ]
        self.ssh_config.write_text("\n".join(lines) + "\n")

    def put(self, path: str, text: str, mode: str = "0100644") -> None:
        """Write a file into the disk of a machine that is off, without mounting it."""
        source = self.folder / "put"
        source.write_text(text)
        folder, _, name = path.rpartition("/")
        commands = [f"cd {folder}", f"rm {name}", f"write {source} {name}", f"set_inode_field {name} mode {mode}"]
        commands += [f"set_inode_field {name} {owner} 0" for owner in ("uid", "gid")]
        run(["debugfs", "-w", "-f", "-", self.disk], text="\n".join(commands) + "\n")
        source.unlink()

    def save(self, name: str) -> None:
        """Keep the disk of a machine that is off under a name."""
        self.must_be_off()
        copy_sparse(self.disk, self.folder / f"saved-{name}.img")

    def restore(self, name: str) -> None:
        """Go back to a disk that was kept."""
        self.must_be_off()
        copy_sparse(self.folder / f"saved-{name}.img", self.disk)

    def must_be_off(self) -> None:
        """Refuse to touch the disk of a running machine."""
        if self.is_on():
            raise CommandFailed("The machine is running: power it off first.")

    # -- power -----------------------------------------------------------------------------------
    def supply(self) -> int | None:
        """Return the process that is the machine's power supply, while it lives."""
        file = self.folder / "power.pid"
        if not file.exists() or not file.read_text().strip():
            return None
        pid = int(file.read_text())
        return pid if process_state(pid) not in ("", "Z") else None

    def is_on(self) -> bool:
        """Tell whether it has power."""
        return self.supply() is not None

    def start(self) -> None:
        """Switch it on and wait until it answers."""
        if not self.is_on():
            self.switch_on()
        self.wait_for_ssh()

    def switch_on(self) -> None:
        """Give it power; it outlives the calling process."""
        self.network.up()
        options = [
            kernel.build(),
            f"mem={self.memory}",
            f"ubd0={self.disk}",
            "root=/dev/ubda rw con=null con0=null,fd:2 ssl=null umid=vds noreboot seccomp=on",
            f"vec0:transport=raw,ifname={self.network.plug_in(self.number)}",
        ]
        words = [word for option in options for word in str(option).split()]
        pid_file = self.folder / "power.pid"
        pid_file.unlink(missing_ok=True)
        with open(self.folder / "power.log", "ab") as log:
            subprocess.run(
                [
                    *("setsid", "--fork", "nsenter", f"--net={self.network.path}"),
                    *("sh", "-c", 'echo $$ > "$0"; exec "$@"', pid_file),
                    *("unshare", "--pid", "--fork", "--kill-child", "--mount-proc"),
                    *(sys.executable, "-m", "tests.host.power", self.folder, *words),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=os.environ | {"HOME": str(self.folder), "TMPDIR": "/dev/shm"},
                check=True,
            )
        wait_for("The machine's power supply", self.is_on, timeout_s=10, every_s=0.05)

    def power_cut(self) -> None:
        """Kill everything of it at once: what the guest had not written to its disk is gone."""
        supply = self.supply()
        if supply is None:
            raise CommandFailed("The machine has no power to cut.")
        for pid in Path(f"/proc/{supply}/task/{supply}/children").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        wait_for("The end of all its processes", lambda: not self.is_on(), timeout_s=30, every_s=0.05)

    def stop(self) -> None:
        """Power it off in order; cut it, and say so, when that takes longer than a minute."""
        if not self.is_on():
            return
        try:
            self.ssh(SOON.format("poweroff"))
            wait_for("The power off", lambda: not self.is_on(), timeout_s=60)
        except (CommandFailed, TimeoutError) as error:
            say(f"Cutting the power: {error}")
            if self.is_on():
                self.power_cut()

    def reboot(self) -> float:
        """Reboot it in order and return the seconds until it answers again."""
        old = self.boot_id()
        self.ssh(SOON.format("reboot"))
        return self.wait_for_ssh(unlike=old)

    def down(self) -> None:
        """Stop it and take its network away."""
        self.stop()
        self.network.down()

    def __enter__(self) -> "Machine":
        return self

    def __exit__(self, *exception: object) -> None:
        self.down()

    # -- talking to it ---------------------------------------------------------------------------
    def ssh(self, command: str, *, text: str | None = None, timeout_s: float = 60) -> str:
        """Run a command on it as root and return what it printed."""
        ssh = self.network.inside("ssh", "-F", self.ssh_config, "vds", command)
        return run(ssh, text=text, timeout_s=timeout_s * crowding())

    def boot_id(self) -> str:
        """Return what tells this boot from another."""
        return self.ssh("cat /proc/sys/kernel/random/boot_id", timeout_s=20).strip()

    def wait_for_ssh(self, unlike: str = "", timeout_s: float = BOOT_S) -> float:
        """Wait until it answers, with another boot than the one given, and return the seconds that took.

        Raises: TimeoutError, CommandFailed with the console's last lines if it is off.
        """
        started = time.monotonic()

        def answers() -> bool:
            if not self.is_on():
                raise CommandFailed("\n  ".join(["The machine is off:", *tail(self.folder / "console.log")]))
            try:
                return self.boot_id() != unlike
            except CommandFailed:
                return False

        wait_for("The machine's SSH", answers, timeout_s=timeout_s, every_s=0.3)
        return time.monotonic() - started

    def as_person(self, *command: str | Path) -> list[str]:
        """Return a command as somebody would run it on a computer whose DNS knows the site's domain."""
        hosts = self.folder / "hosts"
        hosts.write_text(f"127.0.0.1 localhost\n{self.address} {DOMAIN}\n")
        resolv = self.folder / "resolv.conf"
        resolv.write_text("nameserver 10.0.2.3\n")
        script = f'mount --bind {hosts} /etc/hosts && mount --bind {resolv} "$(realpath /etc/resolv.conf)" && exec "$@"'
        return self.network.inside("unshare", "--mount", "sh", "-c", script, "sh", *command)


def copy_sparse(source: Path, target: Path) -> None:
    """Copy a disk without its holes."""
    run(["cp", "--sparse=always", source, target], timeout_s=300)


def process_state(pid: int) -> str:
    """Return a process's state letter; empty when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def main(arguments: Sequence[str]) -> int:
    """Do one thing with one machine."""
    parser = argparse.ArgumentParser(prog="python -m tests.host.machine", description=__doc__)
    parser.add_argument("action", choices=["up", "down", "cut", "ssh", "inside", "save", "restore"])
    parser.add_argument("words", nargs=argparse.REMAINDER, help="a command, or the name of a saved disk")
    parser.add_argument("--run", type=Path, default=os.environ.get("VDS_RUN", "/var/tmp/kit-vds"), help="its folder")
    parser.add_argument("--suite", choices=image.SUITES, default="trixie")
    parser.add_argument("--memory", default="1G")
    parser.add_argument("--number", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="start the disk that is there")
    chosen = parser.parse_args(arguments)
    machine = Machine(chosen.run, chosen.suite, chosen.memory, chosen.number)
    if chosen.action in ("ssh", "inside"):
        command = machine.network.inside("ssh", "-F", machine.ssh_config, "vds", *chosen.words)
        return subprocess.call(command if chosen.action == "ssh" else machine.as_person(*chosen.words))
    if chosen.action == "up":
        if not machine.is_on() and not (chosen.keep and machine.disk.exists()):
            machine.new_disk()
        machine.start()
        say(f"Up: python -m tests.host.machine --run {chosen.run} ssh")
    elif chosen.action in ("save", "restore"):
        getattr(machine, chosen.action)(chosen.words[0])
    else:
        {"down": machine.down, "cut": machine.power_cut}[chosen.action]()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
