"""What a start refuses, in production and as the demo. Each rule is a sentence that names the variable and the fix."""

from pathlib import Path

LOOPBACK = {"127.0.0.1", "localhost", "[::1]"}
NETWORK_FILE_SYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "davfs"}


def file_system_type(path: Path, mounts: str) -> str:
    """Return the type of the file system that holds a path.

    Shape: mounts is the text of /proc/mounts: device, mount point, type ... a line; the longest match wins.
    """
    best, kind = "", ""
    for line in mounts.splitlines():
        _, point, fs_type, *_ = line.split(" ")
        point = point.replace("\\040", " ")
        if (path == Path(point) or Path(point) in path.parents) and len(point) >= len(best):
            best, kind = point, fs_type
    return kind


def refusals(settings: dict, mounts: str) -> list[str]:
    """Return why these settings must not serve production; empty when they may."""
    found = []
    if settings["DEBUG"]:
        found.append("DEBUG is on: it shows settings and source to anybody. Unset DEBUG.")
    if len(settings["SECRET_KEY"]) < 50:
        found.append(
            "SECRET_KEY is missing or shorter than 50 characters: anybody could sign in as anybody. Generate one: "
            "python -c 'import secrets; print(secrets.token_urlsafe(50))'"
        )
    if not settings["ALLOWED_HOSTS"] or "*" in settings["ALLOWED_HOSTS"]:
        found.append("ALLOWED_HOSTS must name the site's hosts, e.g. ALLOWED_HOSTS=kit.example.com.")
    if not settings["SITE_URL"].startswith("https://"):
        found.append(
            "SITE_URL is missing or not https: links in mails begin with it. Set it to the site's own address, "
            "e.g. SITE_URL=https://kit.example.com."
        )
    for name in ("TEAM_WEBHOOK_URL", "PAYMENT_URL"):
        if settings.get(name, "").startswith("http:"):
            found.append(f"{name} is not https: what goes there, its key too, is readable on the way. Use https.")
    database = settings["DATABASES"]["default"]
    if database["ENGINE"].endswith("sqlite3"):
        fs_type = file_system_type(Path(database["NAME"]).resolve().parent, mounts)
        if fs_type in NETWORK_FILE_SYSTEMS or fs_type.startswith("fuse."):
            found.append(
                f"DATABASE_URL names an SQLite file on a network file system ({fs_type}): its locks do not hold there "
                "and the file will be damaged. Put it on a local disk, or use PostgreSQL."
            )
    return found


def demo_refusals(settings: dict) -> list[str]:
    """Return why these settings must not serve as the demo; empty when they may."""
    if others := [host for host in settings["ALLOWED_HOSTS"] if host not in LOOPBACK]:
        return [
            f"ALLOWED_HOSTS names {', '.join(others)}, but the demo shows all mail to anybody. "
            "Set ENVIRONMENT=production for a site that others reach; for the demo unset ALLOWED_HOSTS."
        ]
    return []
