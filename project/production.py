"""What a production start refuses. Each rule is a sentence that names the variable and the fix."""

from pathlib import Path

INSECURE_KEY = "demo-key-that-everybody-knows-do-not-use-it-in-production"
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
    if settings["SECRET_KEY"] == INSECURE_KEY or len(settings["SECRET_KEY"]) < 50:
        found.append(
            "SECRET_KEY is the demo's or shorter than 50 characters: anybody could sign in as anybody. Generate one: "
            "python -c 'import secrets; print(secrets.token_urlsafe(50))'"
        )
    if not settings["ALLOWED_HOSTS"] or "*" in settings["ALLOWED_HOSTS"]:
        found.append("ALLOWED_HOSTS must name the site's hosts, e.g. ALLOWED_HOSTS=kit.example.com.")
    database = settings["DATABASES"]["default"]
    if database["ENGINE"].endswith("sqlite3"):
        fs_type = file_system_type(Path(database["NAME"]).resolve().parent, mounts)
        if fs_type in NETWORK_FILE_SYSTEMS or fs_type.startswith("fuse."):
            found.append(
                f"DATABASE_URL names an SQLite file on a network file system ({fs_type}): its locks do not hold there "
                "and the file will be damaged. Put it on a local disk, or use PostgreSQL."
            )
    return found
