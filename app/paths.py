"""Private paths: the data and runtime directories, files with secrets, and the type of their file system."""

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Collection, Mapping
from pathlib import Path

from .domain.errors import InvalidRequest, Unavailable
from .domain.isolation import ProcessNamespaces

# On these, locks and shared memory, which SQLite's journal needs, work at best between processes of one machine.
NETWORK_FILESYSTEMS = frozenset(
    [
        *("afs", "beegfs", "ceph", "cifs", "coda", "fhgfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs"),
        *("nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "wekafs"),
        *("fuse.ceph", "fuse.glusterfs", "fuse.gpfs", "fuse.juicefs", "fuse.lustre", "fuse.s3fs", "fuse.sshfs"),
    ]
)
# The path of a unix socket has at most 107 bytes; the longest name in the runtime directory must fit.
MAX_RUNTIME_PATH = 80


def data_directory(environ: Mapping[str, str]) -> Path:
    """The default data directory, by the XDG base directory specification."""
    base = environ.get("XDG_DATA_HOME", "")
    # According to the specification, a relative path must be ignored.
    home = Path(base) if base.startswith("/") else Path(environ.get("HOME") or Path.home(), ".local/share")
    return home / "perfloom"


def runtime_directory(data: Path, environ: Mapping[str, str]) -> Path:
    """The runtime directory of a data directory, the same for all processes of a user. It is not created."""
    digest = hashlib.sha256(os.fsencode(data.resolve())).hexdigest()[:12]
    # A process without a login session (cron, su) must find the server that one with a session started.
    for base in (environ.get("XDG_RUNTIME_DIR", ""), f"/run/user/{os.geteuid()}"):
        path = Path(base, f"perfloom-{digest}")
        if base.startswith("/") and len(os.fsencode(path)) <= MAX_RUNTIME_PATH and _ours(Path(base)):
            return path
    return Path("/tmp", f"perfloom-{os.geteuid()}-{digest}")


def make_private(path: Path, known: Collection[str] | None = None) -> Path:
    """Make `path` a directory that only this user can enter (0700), and return it.

    known: names that identify a data directory that others can read; one with other files is not changed
    (InvalidRequest). Raises Unavailable if it cannot be created, or belongs to another user.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            pass
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode):
            # A link of this user is safe; one of another user in a shared /tmp is an attack.
            if found.st_uid != os.geteuid():
                raise Unavailable(f"{path} is a symbolic link of another user. Remove it, or choose another directory.")
            found = path.stat()
        if not stat.S_ISDIR(found.st_mode):
            raise InvalidRequest(f"{path} is not a directory. Choose another one, or move that file.")
        if found.st_uid != os.geteuid():
            raise Unavailable(
                f"{path} belongs to user {found.st_uid}, but this process runs as user {os.geteuid()}. "
                f"Choose another directory, or run as its owner."
            )
        if stat.S_IMODE(found.st_mode) & 0o077:
            inside = set(os.listdir(path))
            if known is not None and inside and not inside & set(known):
                raise InvalidRequest(
                    f"{path} contains other files, and other users can read it. Choose an empty or new directory.",
                    "data",
                )
            path.chmod(0o700)
    except OSError as error:
        raise Unavailable(f"The directory {path} cannot be used: {os_error_text(error)}. Choose another one.") from None
    return path


def read_or_create_secret(path: Path) -> str:
    """The secret stored in `path` (0600); created at random, atomically, if it is missing or empty."""
    try:
        for _ in range(3):
            try:
                handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except FileNotFoundError:
                _make_secret(path)
                continue
            with open(handle, encoding="ascii", errors="replace") as file:
                found = os.fstat(handle)
                if found.st_uid != os.geteuid():
                    raise Unavailable(f"{path} belongs to another user. Remove it; Perfloom then creates a new one.")
                if stat.S_IMODE(found.st_mode) & 0o077:
                    os.fchmod(handle, 0o600)
                text = file.read(1000).strip()
            if text:
                return text
            path.unlink(missing_ok=True)
    except OSError as error:
        raise Unavailable(
            f"{path} cannot be read or created: {os_error_text(error)}. Remove it and try again."
        ) from None
    raise Unavailable(f"{path} could not be created. Check which other process writes to its directory.")


def network_filesystem(path: Path, mountinfo: str | None = None) -> str | None:
    """The type of the network file system of `path`; None for a local or unknown one.

    mountinfo: text in the form of /proc/self/mountinfo (proc(5)).
    """
    if mountinfo is None:
        try:
            mountinfo = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
        except OSError:
            return None
    target = os.fspath(path.resolve())
    best = -1
    kind = None
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        columns = before.split(" ")
        if len(columns) < 5 or not after:
            continue
        point = columns[4].encode(errors="surrogateescape").decode("unicode_escape")
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        # A later mount on the same mount point hides the earlier one.
        if inside and len(point) >= best:
            best, kind = len(point), after.split(" ")[0]
    return kind if kind in NETWORK_FILESYSTEMS else None


def process_boundary(uid: int | None = None) -> ProcessNamespaces:
    """The namespaces and user of programs that this process starts. uid: null for its own user."""
    own = os.geteuid() if uid is None else uid
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    mounts, pids, users = (os.readlink(f"/proc/self/ns/{name}") for name in ("mnt", "pid", "user"))
    return ProcessNamespaces(_outside(own), boot, mounts, pids, users, root=own == 0)


def _outside(uid: int) -> int:
    """The user's id in the parent user namespace, see user_namespaces(7). The same in the initial namespace."""
    for line in Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines():
        first, outside, count = map(int, line.split())
        if first <= uid < first + count:
            return outside + uid - first
    return uid


def os_error_text(error: OSError) -> str:
    """The message of an OSError, without its path."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full"
    return (error.strerror or str(error)).lower()


def _ours(path: Path) -> bool:
    try:
        found = path.stat()
    except OSError:
        return False
    return (
        stat.S_ISDIR(found.st_mode)
        and found.st_uid == os.geteuid()
        and os.access(path, os.W_OK | os.X_OK, effective_ids=True)
    )


def _make_secret(path: Path) -> None:
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(6)}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(24) + "\n")
            file.flush()
            os.fsync(handle)
        # Creating a link fails if another process was first, so all processes use the same secret.
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass
    finally:
        os.unlink(temporary)
