"""The system packages that Perfloom and its tests use: the programs of each part, and the packages that contain them.

The only list of them: tools/system_parts.py installs from it, tests/support/parts.py skips by it, and the README names
the same packages. It must load in an old Python.
"""

import collections
import glob
import os
import shutil

# Directories that are not on an ordinary user's PATH, with servers and tools of administrators.
SBIN = ("/usr/sbin", "/sbin", "/usr/local/sbin")
# The directories of clang, in Debian and elsewhere.
RUNTIMES = ("/usr/lib/llvm-*/lib/clang/*/lib/*/", "/usr/lib*/clang/*/lib/*/")

# programs: all of them are needed, of a tuple the first that exists; the first identifies the part. packages: Debian's
# names. files: patterns, of which one must match, because the programs need them.
Part = collections.namedtuple("Part", "programs packages files")


def part(programs, packages, files=()):
    return Part(tuple(p if isinstance(p, tuple) else (p,) for p in programs), tuple(packages), tuple(files))


PARTS = {
    "perf": part(["perf"], ["linux-perf"]),
    "redis": part(["redis-server"], ["redis-server"]),
    "postgres": part(["initdb"], ["postgresql"]),
    # The first has no windows, and takes half the time.
    "chromium": part(
        [("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")], ["chromium-headless-shell"]
    ),
    "fonts": part(
        [], ["fonts-dejavu-core", "fonts-liberation"], ["/usr/share/fonts/**/*" + kind for kind in (".ttf", ".otf")]
    ),
    "sshd": part(["sshd"], ["openssh-server"]),
    "ssh": part(["ssh", "ssh-keygen"], ["openssh-client"]),
    "openmpi": part(["mpirun.openmpi", "mpicc.openmpi"], ["openmpi-bin", "libopenmpi-dev"]),
    "mpich": part(["mpirun.mpich", "mpicc.mpich", "mpiexec.hydra"], ["mpich", "libmpich-dev"]),
    "slurm": part(["slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "scancel", "sinfo"], ["slurm-wlm"]),
    "gcc": part(["gcc"], ["gcc", "libc6-dev"], ["/usr/include/stdio.h"]),
    "g++": part(["g++"], ["g++"]),
    # The second package contains what -fsanitize links with.
    "clang": part(
        ["clang", "clang++"], ["clang", "libclang-rt-dev"], [place + "libclang_rt.tsan*" for place in RUNTIMES]
    ),
    "go": part(["go"], ["golang-go"]),
    "node": part(["node"], ["nodejs"]),
    "java": part(["java"], ["default-jre-headless"]),
    "npm": part(["npm"], ["npm"]),
    "debuginfod": part(["debuginfod"], ["debuginfod"]),
    "ip": part(["ip"], ["iproute2"]),
    "sudo": part(["sudo"], ["sudo"]),
    "shellcheck": part(["shellcheck"], ["shellcheck"]),
    "dash": part(["dash"], ["dash"]),
    "busybox": part(["busybox"], ["busybox"]),
    "tcsh": part(["tcsh"], ["tcsh"]),
    "fish": part(["fish"], ["fish"]),
    "setcap": part(["setcap"], ["libcap2-bin"]),
    "readelf": part(["readelf"], ["binutils"]),
    "gzip": part(["gzip"], ["gzip"]),
    "xz": part(["xz"], ["xz-utils"]),
    "zstd": part(["zstd"], ["zstd"]),
    "git": part(["git"], ["git"]),
    "make": part(["make"], ["make"]),
}


def program(names, path=None):
    """The path of the first of these programs that is on PATH (or `path`) or in an administrator's directory, or
    None."""
    for name in names:
        found = shutil.which(name, path=path) or shutil.which(name, path=os.pathsep.join(SBIN))
        if found:
            return found
    return None


def lacking(part, find):
    """What is missing of a part, in words, or "". `find` returns the path of one of some programs, or None."""
    for names in part.programs:
        if find(names) is None:
            return names[0]
    if part.files and not any(glob.glob(pattern, recursive=True) for pattern in part.files):
        return "a file of " + " ".join(part.packages)
    return ""
