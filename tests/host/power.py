"""A machine's power supply: runs the kernel until it powers off, and again after a reboot.

`python -m tests.host.power <folder> <kernel and its options>`, as process 1 of a PID namespace: one SIGKILL to it is
the power cut. A guest's reboot ends the kernel (`noreboot`): one that starts itself anew would lose its network.
"""

import subprocess
import sys
import time
from pathlib import Path

REBOOT = b"reboot: Restarting system"


def main(folder: Path, kernel: list[str]) -> None:
    """Run the kernel as often as it asks for a reboot."""
    Path("/proc/self/oom_score_adj").write_text("500")  # this machine's memory is worth more than the guest's
    console, history = folder / "console.log", folder / "console.all"
    while True:
        with open(console, "wb") as output:
            code = subprocess.run(kernel, stdin=subprocess.DEVNULL, stdout=output, stderr=output).returncode
        seen = console.read_bytes()
        with open(history, "ab") as file:
            file.write(seen)
        if REBOOT not in seen[-400:]:
            print(f"{time.strftime('%H:%M:%S')} powered off, the kernel ended with {code}", flush=True)
            return
        print(f"{time.strftime('%H:%M:%S')} reboot", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
