"""The Internet as a machine sees it: a network namespace with a gateway, a name server and a way to Debian's archive.

Nothing of it touches this machine's own network but one route, which keeps a packet for a guest from leaving by
accident.
"""

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests.host.shell import run, tail, wait_for

NETWORK = "10.77.0"
GATEWAY = f"{NETWORK}.1"
ROUTE = ["unreachable", f"{NETWORK}.0/24", "metric", "4001"]
CLONE_NEWNET = 0x40000000
# A hoster's router: the guest may ask names and fetch packages, and nobody else's server gets anything from it.
RULES = """
table ip hoster {
  chain after { type nat hook postrouting priority 100; oifname "wan0" masquerade; }
  chain forward {
    type filter hook forward priority 0; policy drop;
    ct state established,related accept;
    iifname "kit0" oifname "wan0" meta l4proto { tcp, udp } th dport 53 accept;
    iifname "kit0" oifname "wan0" tcp dport { 80, 443 } accept;
    reject;
  }
}
"""
Result = TypeVar("Result")


@dataclass(frozen=True)
class Network:
    """One namespace; machines hang on its bridge, and tests enter it to be a stranger on the Internet."""

    name: str
    folder: Path

    @property
    def path(self) -> str:
        """Return the namespace's file."""
        return f"/run/netns/{self.name}"

    def exists(self) -> bool:
        """Tell whether it is up."""
        return Path(self.path).exists()

    def up(self) -> None:
        """Make the namespace, its bridge and its way out; nothing, if it is there."""
        if self.exists():
            return
        run(["ip", "route", "replace", *ROUTE])
        run(["ip", "netns", "add", self.name])
        for command in (
            ["link", "set", "lo", "up"],
            ["route", "add", *ROUTE],
            ["link", "add", "kit0", "type", "bridge"],
            ["addr", "add", f"{GATEWAY}/24", "dev", "kit0"],
            ["link", "set", "kit0", "up"],
        ):
            run(["ip", "-n", self.name, *command])
        run(self.inside("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.disable_ipv6=1"))
        run(self.inside("ethtool", "-K", "kit0", "tx", "off", "gso", "off", "tso", "off"))
        self.start_way_out()
        run(self.inside("nft", "-f", "-"), text=RULES)

    def start_way_out(self) -> None:
        """Start the user mode network stack that leads to the archive; the host's own ports cannot be reached by it."""
        log = self.folder / "slirp.log"
        with open(log, "wb") as output:
            process = subprocess.Popen(
                [
                    "slirp4netns",
                    "--configure",
                    "--mtu=1500",
                    "--disable-host-loopback",
                    "--netns-type=path",
                    self.path,
                    "wan0",
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        (self.folder / "slirp.pid").write_text(str(process.pid))
        wait_for(
            f"The network's way out ({' '.join(tail(log, 3))})",
            lambda: "inet " in run(["ip", "-n", self.name, "-4", "addr", "show"]).partition("wan0")[2],
            timeout_s=20,
            every_s=0.1,
        )

    def plug_in(self, number: int) -> str:
        """Return the name of a machine's end of a cable, plugged into the bridge anew."""
        near, far = f"gw{number}", f"port{number}"
        if f"{far}@" in run(["ip", "-n", self.name, "-o", "link"]):
            return far
        for command in (
            ["link", "add", near, "type", "veth", "peer", "name", far],
            ["link", "set", near, "master", "kit0", "up"],
            ["link", "set", far, "up"],
        ):
            run(["ip", "-n", self.name, *command])
        # The guest reads packets as they lie on the cable: without checksums made by a card that is not there.
        for end in (near, far):
            run(self.inside("ethtool", "-K", end, "tx", "off", "gso", "off", "tso", "off"))
        return far

    def down(self) -> None:
        """Take the namespace away, and the route when no other is left."""
        pid_file = self.folder / "slirp.pid"
        if pid_file.exists():
            pid = int(pid_file.read_text())
            if b"slirp4netns" in command_line(pid):
                os.kill(pid, signal.SIGTERM)
            pid_file.unlink()
        if self.exists():
            run(["ip", "netns", "del", self.name])
        others = [path for path in Path("/run/netns").glob("kit-*")]
        if not others and "metric 4001" in run(["ip", "route", "show", f"{NETWORK}.0/24"]):
            run(["ip", "route", "del", *ROUTE])

    def inside(self, *command: str | Path) -> list[str]:
        """Return a command that runs in the namespace, as a program of some computer on the Internet would."""
        return ["nsenter", f"--net={self.path}", *map(str, command)]

    def enter(self) -> None:
        """Move the calling thread, and the threads it starts, into the namespace for good."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open(self.path) as namespace:
            if libc.setns(namespace.fileno(), CLONE_NEWNET):
                error = ctypes.get_errno()
                raise OSError(error, f"{self.path} cannot be entered: {os.strerror(error)}")

    def call(self, function: Callable[..., Result], *args: object, **kwargs: object) -> Result:
        """Return what a function answers that runs in the namespace."""
        with ThreadPoolExecutor(1, initializer=self.enter) as pool:
            return pool.submit(function, *args, **kwargs).result()

    def pool(self, threads: int) -> ThreadPoolExecutor:
        """Return threads that live in the namespace."""
        return ThreadPoolExecutor(threads, initializer=self.enter)


def command_line(pid: int) -> bytes:
    """Return what a process was started with; empty if there is none."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return b""


def addresses(numbers: Iterable[int]) -> list[str]:
    """Return the addresses of machines by their number."""
    return [f"{NETWORK}.{1 + number}" for number in numbers]
