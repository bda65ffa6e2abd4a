"""The host suite: `python -m tests.host [--short] [--suite trixie|bookworm] [--only 3] [--keep]`."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.host import first_deploy, image, mutations, outages, redeploys, restores, sizes
from tests.host.shell import say
from tests.host.suite import Item, Result, Suite, new_suite, run_item, table
from tests.machine import missing_packages, prepare

ITEMS = [
    Item("1", "a bare machine becomes the kit by one command", first_deploy.bare_machine_becomes_the_kit),
    Item("2", "a second deploy changes nothing", first_deploy.second_deploy_changes_nothing),
    Item("3", "a redeploy under load loses nothing", redeploys.redeploy_under_load_loses_nothing),
    Item("4", "bad releases never serve; rollback works", redeploys.bad_releases_never_serve),
    Item("5", "everything comes back without a hand", outages.everything_comes_back),
    Item("6", "a reboot and a power cut lose nothing", outages.plug_is_pulled),
    Item("8", "1 GB of memory is enough", sizes.memory_is_enough),
    Item("9", "burning jobs leave the site quick", sizes.burning_jobs_leave_the_site_quick),
    Item("M", "verify names what was broken by hand", mutations.verify_names_what_is_broken),
    Item("7", "backup, wipe, restore", restores.restored_machine_has_it_all),
]
SHORT = {"trixie": ("1", "2", "3", "6"), "bookworm": ("1",)}


def main(arguments: Sequence[str]) -> int:
    """Run the items that were asked for and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.host", description=__doc__)
    parser.add_argument("--short", action="store_true", help="items 1, 2, 3 and 6 in their short form")
    parser.add_argument("--suite", choices=image.SUITES, default="trixie")
    parser.add_argument("--memory", default="1G")
    parser.add_argument("--only", nargs="+", choices=[item.number for item in ITEMS], help="these items; 1 comes first")
    parser.add_argument("--keep", action="store_true", help="go on with the machine of the run before")
    parser.add_argument("--run", type=Path, default=os.environ.get("VDS_RUN", "/var/tmp/kit-vds"), help="its folder")
    chosen = parser.parse_args(arguments)
    if os.geteuid() or prepare(for_host=True) or missing_packages(for_host=True):
        print("The host suite needs root and packages: tests/host/README.md says which.", file=sys.stderr)
        return 2
    suite = new_suite(chosen.run, chosen.suite, chosen.memory, is_short=chosen.short)
    results = run(suite, [item for item in ITEMS if item.number in wanted(chosen)], keep=chosen.keep)
    print(table(results, f"Debian {chosen.suite}, {chosen.memory} of memory, commit {suite.site.head()}"))
    return int(any(result.verdict != "passed" for result in results))


def wanted(chosen: argparse.Namespace) -> tuple[str, ...]:
    """Return the numbers of the items to run; without a kept machine, none can be without the first."""
    if chosen.only:
        return tuple(chosen.only) if chosen.keep else ("1", *chosen.only)
    return SHORT[chosen.suite] if chosen.short else tuple(item.number for item in ITEMS)


def run(suite: Suite, items: list[Item], *, keep: bool) -> list[Result]:
    """Bring up the machine and run the items; without a kit on it the others are pointless."""
    results: list[Result] = []
    if not (keep and suite.machine.disk.exists()):
        suite.machine.stop()
        suite.machine.new_disk()
    if not (keep and suite.site.clone.exists()):
        suite.site.create()
    suite.machine.start()
    try:
        with suite.internet:
            for item in items:
                results.append(run_item(suite, item))
                if item.number == "1" and results[-1].verdict != "passed":
                    say("Without a deployed kit there is nothing else to look at.")
                    break
    finally:
        if not keep:
            suite.machine.down()
    return results


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
