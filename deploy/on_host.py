"""Run a command on the server that the inventory names, or open a shell there: `on_host.py INVENTORY [COMMAND ...]`.

By ssh itself, with what Ansible knows of the server: a person sees lines as they come, and Ctrl-C ends the command.
"""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

PLAYBOOKS = Path(__file__).resolve().parent.parent / "ansible"
ANSIBLE_INVENTORY = Path(sys.executable).parent / "ansible-inventory"


def main() -> None:
    """Become ssh."""
    inventory, *command = sys.argv[1:]
    hosts = hosts_of(inventory)
    if len(hosts) != 1:
        sys.exit(f"{inventory} names {len(hosts)} hosts; this works with one. Use ssh for the one you mean.")
    os.execvp("ssh", ssh(hosts[0], command, is_terminal=sys.stdout.isatty()))


def hosts_of(inventory: str) -> list[dict]:
    """Return what Ansible knows of each host."""
    command = [str(ANSIBLE_INVENTORY), "-i", inventory, "--playbook-dir", str(PLAYBOOKS), "--list"]
    told = subprocess.run(command, stdout=subprocess.PIPE, check=False, timeout=60)
    if told.returncode:
        sys.exit(f"{inventory} cannot be read, see above.")
    return list(json.loads(told.stdout)["_meta"]["hostvars"].values())


def ssh(host: dict, command: list[str], *, is_terminal: bool) -> list[str]:
    """Return the ssh command line for a host."""
    line = ["ssh"]
    if command and is_terminal:
        line.append("-t")  # so that Ctrl-C reaches the command
    if "ansible_port" in host:
        line += ["-p", str(host["ansible_port"])]
    if "ansible_ssh_private_key_file" in host:
        line += ["-i", os.path.expanduser(host["ansible_ssh_private_key_file"])]
    for name in ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args"):
        line += shlex.split(host.get(name, ""))
    line.append(f"{host.get('ansible_user', 'root')}@{host['ansible_host']}")
    return line + ([shlex.join(command)] if command else [])


if __name__ == "__main__":
    main()
