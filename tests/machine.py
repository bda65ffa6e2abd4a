"""Make this machine able to run every test: `python -m tests.machine`. Only root on Debian gets anything installed.

With `--host`, also those of tests/host, which build a Debian machine of their own.
"""

import os
import shutil
import subprocess
import sys

from tests.services import SBIN, Postgresql, Redis

# What tests/host needs: each package, and a program or a file of it.
HOST_PROGRAMS = {
    "bc": "bc",
    "bison": "bison",
    "debian-archive-keyring": "/usr/share/keyrings/debian-archive-keyring.gpg",
    "e2fsprogs": "debugfs",
    "ethtool": "ethtool",
    "flex": "flex",
    "gcc": "gcc",
    "git": "git",
    "iproute2": "ip",
    "libc6-dev": "/usr/include/stdio.h",
    "make": "make",
    "mmdebstrap": "mmdebstrap",
    "nftables": "nft",
    "openssh-client": "ssh",
    "slirp4netns": "slirp4netns",
    "util-linux": "nsenter",
    "xz-utils": "xz",
}


def missing_packages(for_host: bool = False) -> list[str]:
    """Return the Debian packages whose programs are not here."""
    programs = f"{os.environ['PATH']}:{SBIN}"
    here = {
        "postgresql": Postgresql.binary(),
        "redis-server": Redis.binary(),
        "chromium": shutil.which("chromium"),
        "chromium-driver": shutil.which("chromedriver"),
        "nginx": shutil.which("nginx", path=programs),
        "openssl": shutil.which("openssl"),
        "systemd": shutil.which("systemd-analyze"),
    }
    for package, program in HOST_PROGRAMS.items() if for_host else ():
        here[package] = os.path.exists(program) if program.startswith("/") else shutil.which(program, path=programs)
    return [package for package, path in here.items() if not path]


def prepare(for_host: bool = False) -> int:
    """Install what is missing, or say what to install and let those tests be skipped by name."""
    packages = missing_packages(for_host)
    if not packages:
        return 0
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        print(f"For all tests install: {' '.join(packages)} (Debian's names). Without them some are skipped, by name.")
        return 0
    print(f"Installing {' '.join(packages)} ...", flush=True)
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}  # no service is started by its package
    for command in (["update", "-qq"], ["install", "-qq", "-y", "--no-install-recommends", *packages]):
        code = subprocess.run(["apt-get", *command], env=env, stdout=subprocess.DEVNULL).returncode
        if code:
            print(f"apt-get {command[0]} failed, see above: run `apt-get install {' '.join(packages)}`.")
            return code if os.environ.get("CI") else 0
    return 0


if __name__ == "__main__":
    sys.exit(prepare(for_host="--host" in sys.argv[1:]))
