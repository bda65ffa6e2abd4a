"""A Redis for tests that runs with the deployed redis.conf and users.acl, each user with a password of its own."""

import hashlib
import runpy
import secrets
from pathlib import Path

import redis
from jinja2 import Template

from tests import services
from tests.kit import ROOT

FILES = ROOT / "deploy" / "redis"
apply = runpy.run_path(str(FILES / "apply.py"))


class SecuredRedis(services.Redis):
    """The deployed files, on a port and in a folder of the test's."""

    def __init__(self, folder: Path, acl: str | None = None):
        super().__init__(folder)
        self.passwords = {user: secrets.token_hex(32) for user in apply["USERS"]}
        self.passwords_old: dict[str, str] = {}
        self.acl_template = acl or (FILES / "users.acl").read_text()
        (folder / "users.acl").write_text(self.acl())
        (folder / "redis.conf").write_text(self._conf())

    def acl(self) -> str:
        """Return users.acl as the deploy would write it now."""
        known = {user: [self.passwords[user], *filter(None, [self.passwords_old.get(user)])] for user in self.passwords}
        hashes = {user: [hashlib.sha256(word.encode()).hexdigest() for word in words] for user, words in known.items()}
        return apply["rendered_acl"](self.acl_template, apply["version"]("redis"), hashes)

    def command(self) -> list[str]:
        """Return how it is started."""
        return [self.binary(), "redis.conf"]

    def url_of(self, user: str, password: str | None = None) -> str:
        """Return the address that a process of this user is given."""
        return f"redis://{user}:{password or self.passwords[user]}@{services.HOST}:{self.port}/0"

    def client(self, user: str = "admin", password: str | None = None) -> redis.Redis:
        """Return a connection of one of its users."""
        return redis.Redis.from_url(self.url_of(user, password), decode_responses=True, socket_timeout=5)

    def denials(self) -> list[str]:
        """Return who was refused what since the start."""
        with self.client() as admin:
            return [f"{entry['username']}: {entry['reason']} {entry['object']}" for entry in admin.acl_log()]

    def _conf(self) -> str:
        """Return redis.conf with this test's port and places; all else is what the host gets."""
        values = {"redis_flavour": "redis", "kit_redis_maxmemory_mb": 64}
        conf = Template((FILES / "redis.conf.j2").read_text()).render(values)
        own = {"port": self.port, "dir": self.folder, "aclfile": self.folder / "users.acl", "supervised": "no"}
        own |= {"unixsocket": self.folder / "socket", "pidfile": self.folder / "redis.pid"}
        lines = [line for line in conf.splitlines() if line.partition(" ")[0] not in own]
        return "\n".join([*lines, *(f"{name} {value}" for name, value in own.items())]) + "\n"
