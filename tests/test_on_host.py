"""`make ssh`, `make status` and the like reach the host that the inventory names."""

import subprocess
import sys

import pytest

from deploy.on_host import hosts_of, ssh
from tests.kit import ROOT

pytestmark = pytest.mark.rung("sqlite+filesystem")  # nothing in it depends on database or broker

ON_HOST = ROOT / "deploy" / "on_host.py"
INVENTORY = """
all:
  hosts:
    kit:
      ansible_host: kit.example.com
      ansible_port: 2222
      ansible_ssh_common_args: "-F 'a file'"
"""


@pytest.fixture
def inventory(tmp_path):
    """Give an inventory of one host."""
    path = tmp_path / "inventory"
    path.write_text(INVENTORY)
    return str(path)


def test_command_goes_where_ansible_goes(inventory):
    line = ssh(hosts_of(inventory)[0], ["kit", "logs", "a b"], is_terminal=False)

    assert line == ["ssh", "-p", "2222", "-F", "a file", "root@kit.example.com", "kit logs 'a b'"]


def test_without_a_command_it_is_a_shell(inventory):
    assert ssh(hosts_of(inventory)[0], [], is_terminal=True)[-1] == "root@kit.example.com"


def test_inventory_of_many_hosts_is_refused(tmp_path):
    inventory = tmp_path / "inventory"
    inventory.write_text(INVENTORY + "    other:\n      ansible_host: other.example.com\n")

    told = subprocess.run([sys.executable, ON_HOST, inventory, "true"], capture_output=True, text=True, timeout=60)

    assert told.returncode == 1
    assert "names 2 hosts" in told.stderr
