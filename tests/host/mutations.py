"""Break the hardening by hand, one item at a time: `make verify` must fail and name it."""

import time
from dataclasses import dataclass

from tests.host.shell import say
from tests.host.suite import Suite

SSHD = "/etc/ssh/sshd_config.d/00-suite.conf"
WORKER = "/etc/systemd/system/kit-worker@.service.d/90-suite.conf"
REDIS = "REDISCLI_AUTH=$(cat /etc/kit/secrets/redis_admin) redis-cli -s /run/redis/redis.sock --user admin"
HBA = "$(cd / && runuser -u postgres -- psql -XAtc 'SHOW hba_file')"
NGINX = "$(grep -rl Strict-Transport-Security /etc/nginx | head -1)"


@dataclass(frozen=True)
class Mutation:
    """One thing that somebody does to a host, and what takes it back.

    Shape: ids are those of the hardening list, any of which verify may name; tag is the role that has to notice.
    """

    what: str
    ids: tuple[str, ...]
    tag: str
    breaks: str
    mends: str


MUTATIONS = (
    Mutation(
        "ssh takes passwords",
        ("H-02",),
        "base",
        f"echo 'PasswordAuthentication yes' > {SSHD} && systemctl reload ssh",
        f"rm {SSHD} && systemctl reload ssh",
    ),
    Mutation("the firewall is gone", ("H-06",), "base", "nft flush ruleset", "systemctl restart nftables"),
    Mutation(
        "something listens to everybody",
        ("H-22",),
        "base",
        "systemd-run -q --unit=suite-listener python3 -m http.server 8081 && "
        "timeout 20 sh -c 'until ss -ltnH | grep -q :8081; do sleep 0.2; done'",
        "systemctl stop suite-listener",
    ),
    Mutation(
        "kernel addresses are shown",
        ("H-08",),
        "base",
        "sysctl -qw kernel.kptr_restrict=0",
        "sysctl -qw kernel.kptr_restrict=2",
    ),
    Mutation(
        "Redis lets everybody in",
        ("R-07", "R-09"),
        "redis",
        f"{REDIS} ACL SETUSER default on nopass",
        f"{REDIS} ACL LOAD",
    ),
    Mutation(
        "Redis throws jobs away when it is full",
        ("R-01",),
        "redis",
        f"{REDIS} CONFIG SET maxmemory-policy allkeys-lru",
        f"{REDIS} CONFIG SET maxmemory-policy noeviction",
    ),
    Mutation(
        "Redis forgets at a restart",
        ("R-02", "R-01 to R-05"),
        "redis",
        f"{REDIS} CONFIG SET appendonly no",
        f"{REDIS} CONFIG SET appendonly yes",
    ),
    Mutation(
        "PostgreSQL trusts everybody on the machine",
        ("P-",),
        "postgresql",
        f"cp -p {HBA} /root/suite-hba && sed -i '1i local all all trust' {HBA} && systemctl reload postgresql",
        f"cat /root/suite-hba > {HBA} && rm /root/suite-hba && systemctl reload postgresql",
    ),
    Mutation(
        "browsers are not told to stay with https",
        ("N-",),
        "proxy",
        f"f={NGINX} && cp -p $f /root/suite-nginx && echo $f > /root/suite-nginx.path && "
        "sed -i s/Strict-Transport-Security/X-Nothing/ $f && systemctl reload nginx",
        "cat /root/suite-nginx > $(cat /root/suite-nginx.path) && rm /root/suite-nginx* && systemctl reload nginx",
    ),
    Mutation(
        "everybody may read a secret",
        ("S-01", "H-14"),
        "base,app",
        "chmod 0644 /etc/kit/secrets/secret_key",
        "chmod 0600 /etc/kit/secrets/secret_key",
    ),
    Mutation(
        "services may change the code they run",
        ("H-14",),
        "base",
        "chmod o+w $(readlink -f /srv/kit/current)",
        "chmod o-w $(readlink -f /srv/kit/current)",
    ),
    Mutation(
        "the worker has lost its sandbox",
        ("U-",),
        "app",
        f"install -d $(dirname {WORKER}) && printf '[Service]\\nProtectSystem=no\\nPrivateUsers=no\\n' > {WORKER} && "
        "systemctl daemon-reload",
        f"rm {WORKER} && systemctl daemon-reload",
    ),
)


def verify_names_what_is_broken(suite: Suite) -> None:
    """Break each, verify the role, and mend it; show every one that verify did not name."""
    unseen = []
    started = time.monotonic()
    for mutation in MUTATIONS:
        suite.machine.ssh(mutation.breaks)
        try:
            outcome = suite.site.make("verify", f"ARGS=--tags {mutation.tag}")
        finally:
            suite.machine.ssh(mutation.mends)
        named = [id_ for id_ in mutation.ids if id_ in failures(outcome.text)]
        say(f"  {mutation.what}: {', '.join(named) or 'not seen'}")
        if not outcome.code or not named:
            unseen.append(
                f"{mutation.what} ({', '.join(mutation.ids)}): verify ended with {outcome.code}\n{outcome.end}"
            )
    assert not unseen, f"verify did not name {len(unseen)} of {len(MUTATIONS)}:\n" + "\n".join(unseen)
    suite.site.must_make("verify")
    suite.found(f"{len(MUTATIONS)} items broken by hand, each named by verify ({time.monotonic() - started:.0f} s)")


def failures(text: str) -> str:
    """Return what Ansible printed of tasks that failed, with their names."""
    found, task = [], ""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.startswith(("TASK [", "RUNNING HANDLER [")):
            task = line
        elif line.startswith(("fatal: ", "[ERROR]")):
            found += [task, *lines[number : number + 30]]
    return "\n".join(found)
