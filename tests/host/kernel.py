"""Build the machine's kernel, once: `python -m tests.host.kernel`.

It is User Mode Linux: Linux as a program of this machine, with cgroups, nftables and a disk of its own. Debian's ready
made one has no nftables, and its older ones end on processors with AMX; so it is built from Debian's source.
"""

import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path

from tests.host.shell import CACHE, CommandFailed, log_to, making, mirror, run, say

CONFIG = Path(__file__).parent / "kernel.config"
# What the kit's units and firewall cannot do without; a rename in a later kernel would drop one silently.
NEEDED = ("NF_TABLES_INET", "MEMCG", "CFS_BANDWIDTH", "CGROUP_PIDS", "SECCOMP_FILTER", "UML_NET_VECTOR", "CGROUP_BPF")
BUILD_S = 3600
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def kernel_file() -> Path:
    """Return where the kernel of this configuration is kept."""
    return CACHE / f"linux-{hashlib.sha256(CONFIG.read_bytes()).hexdigest()[:12]}"


def build() -> Path:
    """Return the kernel, built if it is not there: 8 minutes of two cores."""
    kernel = kernel_file()
    with making(kernel) as is_missing:
        if is_missing:
            compile_to(kernel)
    return kernel


def compile_to(kernel: Path) -> None:
    """Build the kernel and put it in its place."""
    say("Building the guest's kernel, once; this takes 8 minutes of two cores ...")
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="kernel-") as folder:
        source = unpack_source(Path(folder))
        configure(source)
        log_to(
            CACHE / "kernel.log",
            ["make", "-s", "ARCH=um", f"-j{os.cpu_count()}", "linux"],
            timeout_s=BUILD_S,
            cwd=source,
        )
        run(["strip", "-o", kernel.with_suffix(".new"), source / "linux"])
    kernel.with_suffix(".new").rename(kernel)


def unpack_source(folder: Path) -> Path:
    """Fetch the oldest kernel of the 7 series that Debian's backports hold, and return its folder.

    It goes through a package list of its own: this machine's sources stay as they are.
    """
    for name in ("lists/partial", "archives/partial"):
        (folder / name).mkdir(parents=True)
    sources = folder / "sources.list"
    sources.write_text(f"deb [signed-by={KEYRING}] {mirror()} trixie-backports main\n")
    options = {
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "-",
        "Dir::State": folder,
        "Dir::State::status": "/dev/null",
        "Dir::Cache": folder,
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Acquire::Check-Valid-Until": "false",
    }
    apt = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    run(["apt-get", *apt, "update", "-qq"], timeout_s=300)
    packages = run(["apt-cache", *apt, "search", "--names-only", r"^linux-source-7\.[0-9]+$"]).split()
    versions = sorted(int(found[1]) for word in packages if (found := re.fullmatch(r"linux-source-7\.(\d+)", word)))
    if not versions:
        raise CommandFailed(
            "Debian's backports hold no linux-source-7.x: choose another series in tests/host/kernel.py."
        )
    package = f"linux-source-7.{versions[0]}"
    log_to(CACHE / "kernel.log", ["apt-get", *apt, "download", "-qq", package], timeout_s=900, cwd=folder)
    run(["dpkg-deb", "-x", next(folder.glob("*.deb")), folder], timeout_s=300)
    run(["tar", "-C", folder, "-xf", folder / "usr/src" / f"{package}.tar.xz"], timeout_s=300)
    return folder / package


def configure(source: Path) -> None:
    """Merge our configuration into the smallest one.

    Raises: CommandFailed, when the kernel has dropped what the kit needs.
    """
    for command in (
        ["make", "-s", "ARCH=um", "tinyconfig"],
        ["scripts/kconfig/merge_config.sh", "-m", ".config", CONFIG],
        ["make", "-s", "ARCH=um", "olddefconfig"],
    ):
        log_to(CACHE / "kernel.log", command, timeout_s=600, cwd=source)
    lines = (source / ".config").read_text().splitlines()
    lost = [name for name in NEEDED if f"CONFIG_{name}=y" not in lines]
    if lost:
        raise CommandFailed(f"The kernel's configuration lost {', '.join(lost)}: mend tests/host/kernel.config.")


if __name__ == "__main__":
    if not shutil.which("flex"):
        raise SystemExit("Packages are missing: run `python -m tests.machine --host` first.")
    print(build())
