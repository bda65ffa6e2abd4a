"""Build a disk image such as a hoster's smallest Debian template, once: `python -m tests.host.image trixie`."""

import hashlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.host.shell import CACHE, log_to, making, mirror, run, say

SUITES = ("trixie", "bookworm")
DISK = "10G"  # sparse
OWN_CAS = Path("/usr/local/share/ca-certificates")
PACKAGES = (
    "systemd,systemd-sysv,libpam-systemd,libnss-systemd,dbus,udev,kmod,openssh-server,python3,python3-apt,sudo,"
    "ca-certificates,iproute2,iputils-ping,nftables,procps,less,locales,apt-utils,cron,logrotate"
)
FILES = {
    "etc/fstab": "/dev/ubda / ext4 errors=remount-ro 0 1\n",
    "etc/resolv.conf": "nameserver 10.0.2.3\n",
    "etc/default/locale": "LANG=C.UTF-8\n",
    "etc/machine-id": "",
    "etc/systemd/network/10-eth0.link": "[Match]\nOriginalName=vec0\n[Link]\nName=eth0\nNamePolicy=\n",
    # The archive's lists may be older than they say; the machine we are on accepts that as well.
    "etc/apt/apt.conf.d/99tests": 'Acquire::Check-Valid-Until "false";\nAcquire::Languages "none";\n',
    # Host keys are made at the first start, so that no two machines share them.
    "etc/systemd/system/ssh-keys.service": (
        "[Unit]\nBefore=ssh.service ssh.socket\nConditionPathExists=!/etc/ssh/ssh_host_ed25519_key\n"
        "[Service]\nType=oneshot\nExecStart=/usr/bin/ssh-keygen -A\n[Install]\nWantedBy=multi-user.target ssh.service\n"
    ),
}
SYSTEMCTL = (
    "enable systemd-networkd ssh ssh-keys.service",
    "disable systemd-networkd-wait-online apt-daily.timer apt-daily-upgrade.timer",
    "mask getty@tty1.service systemd-network-generator.service",  # there is no tty
)


def build(suite: str) -> Path:
    """Return the image of a Debian release, built if it is not there: about a minute."""
    image = CACHE / f"debian-{suite}-{fingerprint()}.img"
    with making(image) as is_missing:
        if is_missing:
            assemble(suite, image)
    return image


def assemble(suite: str, image: Path) -> None:
    """Build an image and put it in its place."""
    say(f"Building the {suite} image, once; this takes a minute ...")
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="image-") as folder:
        root = Path(folder) / "root"
        install(suite, root)
        settle(root)
        new = Path(folder) / "disk"
        run(["truncate", "-s", DISK, new])
        run(["mkfs.ext4", "-q", "-F", "-L", "root", "-d", root, new], timeout_s=300)
        new.rename(image)


def fingerprint() -> str:
    """Return what an image is recognised by: this file, and the CAs that are copied in."""
    parts = [Path(__file__).read_bytes(), *(file.read_bytes() for file in sorted(OWN_CAS.glob("*.crt")))]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:12]


def install(suite: str, root: Path) -> None:
    """Unpack Debian into a folder."""
    archive = mirror()
    security = f"{archive.rpartition('/debian')[0] or archive}/debian-security"
    options = ['Acquire::Languages "none"', 'APT::Install-Recommends "false"', 'Acquire::Check-Valid-Until "false"']
    excluded = ["path-exclude=/usr/share/doc/*", "path-exclude=/usr/share/man/*"]
    log_to(
        CACHE / "image.log",
        [
            "mmdebstrap",
            "--variant=minbase",
            f"--include={PACKAGES}",
            *(f"--aptopt={option}" for option in options),
            *(f"--dpkgopt={option}" for option in excluded),
            suite,
            root,
            f"deb {archive} {suite} main",
            f"deb {archive} {suite}-updates main",
            f"deb {security} {suite}-security main",
        ],
        timeout_s=1200,
    )


def settle(root: Path) -> None:
    """Make the folder what a hoster's template is after its first start."""
    for name, text in FILES.items():
        (root / name).write_text(text)
    (root / "etc/apt/apt.conf.d/99mmdebstrap").unlink(missing_ok=True)
    # Empty lists that look fresh would keep Ansible from fetching them.
    month_ago = time.time() - 30 * 86_400
    for path in (root / "var/lib/apt/lists", *(root / "var/lib/apt/lists").rglob("*")):
        os.utime(path, (month_ago, month_ago))
    if list(OWN_CAS.glob("*.crt")):
        trust_own_cas(root)
    for line in SYSTEMCTL:
        run(["chroot", root, "systemctl", *line.split()])
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    (root / "root/.ssh").mkdir(mode=0o700, exist_ok=True)


def trust_own_cas(root: Path) -> None:
    """Let the guest reach package registries through the same proxies as this machine."""
    for file in OWN_CAS.glob("*.crt"):
        shutil.copy(file, root / "usr/local/share/ca-certificates")
    run(["chroot", root, "update-ca-certificates"], timeout_s=120)
    (root / "etc/pip.conf").write_text("[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n")


if __name__ == "__main__":
    for name in sys.argv[1:] or SUITES:
        print(build(name))
