"""Make the virtual environment: `python3 deploy/prepare.py requirements.txt`.

It needs nothing but the standard library, and its syntax is that of 3.5: it must get as far as telling an old Python.
"""

import hashlib
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
VENV_PYTHON = os.path.join(VENV, "bin", "python")


def main(requirements):
    """Check the machine, then bring .venv to what the requirements file says; at once when it is there already."""
    check_python()
    check_writable(ROOT, "clone the kit into a folder of your own")
    check_writable(os.environ.get("DATA_DIR") or os.path.join(ROOT, "var"), "set DATA_DIR to a folder of your own")
    wanted = fingerprint(requirements)
    if not runs():
        check_venv_module()
        subprocess.check_call([sys.executable, "-m", "venv", "--clear", VENV])
    stamp = os.path.join(VENV, requirements + ".sha256")
    if read(stamp) != wanted:
        print("Installing {} into .venv, once; this takes about a minute ...".format(requirements), flush=True)
        install(requirements)
        with open(stamp, "w") as file:
            file.write(wanted)


def check_python():
    """Refuse a Python that is too old."""
    if sys.version_info < (3, 11):
        here = ".".join(map(str, sys.version_info[:3]))
        refuse("Python {} is too old: install 3.11 or newer, or name one: make PYTHON=/path/to/python3.11".format(here))


def check_venv_module():
    """Refuse a Python that cannot make virtual environments, as Debian ships it."""
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        refuse("Python's venv module is missing: install it, on Debian and Ubuntu with `apt install python3-venv`.")


def check_writable(folder, advice):
    """Refuse a folder that no file can be made in."""
    probe = os.path.join(folder, ".writable-{}".format(os.getpid()))
    try:
        os.makedirs(folder, exist_ok=True)
        open(probe, "w").close()
        os.remove(probe)
    except OSError as error:
        refuse("{} cannot be written ({}): {}.".format(folder, error.strerror, advice))


def runs():
    """Tell whether .venv has a Python that starts; one that was copied or whose Python was removed does not."""
    try:
        return subprocess.call([VENV_PYTHON, "-c", "import pip"], stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


def install(requirements):
    """Install exactly what the file says, each package checked against its hash."""
    pip = [VENV_PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    if subprocess.call([*pip, "-r", os.path.join(ROOT, requirements)]):
        refuse("The dependencies were not installed, see above: check the network and run the same command again.")


def fingerprint(requirements):
    """Return what a finished installation is recognised by."""
    with open(os.path.join(ROOT, requirements), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def read(path):
    """Return a file's text, empty when there is none."""
    if not os.path.exists(path):
        return ""
    with open(path) as file:
        return file.read()


def refuse(sentence):
    """Say what is wrong and what to do, and stop."""
    sys.stderr.write(sentence + "\n")
    sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
