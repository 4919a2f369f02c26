"""What the values of a Target may be. One definition for form, files and command line."""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from ...domain.errors import InvalidRequest
from ...domain.jobs import MpiFlavor
from ...domain.targets import LOCAL, SchedulerName, Ssh, Target
from ..mpi.registry import MPI_LAUNCHERS, mpi_title
from ..plan import path_variables
from ..schedulers import scheduler_title

MAX_NAME = 60
MAX_TEXT = 32_768
MAX_PATH = 4_096
MAX_COUNT = 200
RESERVED = ("new", "import")
"""Words that are pages of their own beside those of the targets."""

NAME = re.compile(r"\w[\w .@+-]*")
HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*(%[A-Za-z0-9._-]+)?")
USER = re.compile(r"[\w.][\w.@\\$+-]*")
PROGRAM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
MODULE = re.compile(r"[^\s-][^\s]*")
_CONTROLS = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)))
_KEY_TYPE = re.compile(r"(?:sk-)?(?:ssh|ecdsa)-[a-z0-9@.-]+")


@dataclass(frozen=True)
class JumpHost:
    """A host on the way: [user@]host[:port]."""

    host: str
    user: str = ""
    port: int | None = None


def validate_target(target: Target) -> dict[str, str]:
    """A sentence for each value that cannot be used, by its name in Target or Ssh. Empty: all can.

    Values of any type are looked at, since a target may come from a file.
    """
    found: dict[str, str] = {}
    for name, message in _messages(target):
        if message is not None:
            found.setdefault(name, message)
    return found


def require_valid(target: Target) -> Target:
    """The same target. Raises InvalidRequest with the first thing that is wrong."""
    for name, message in validate_target(target).items():
        raise InvalidRequest(message, name)
    return target


def from_data(data: Mapping[str, Any], *, name: str | None = None) -> Target:
    """A target as it stands in a file that somebody exchanged, or in a request. name: in place of the file's own.

    Keys of hosts in it are left out: they are accepted by a person, for each Perfloom anew. Raises InvalidRequest for
    a word that no target has, and for a value that cannot be used.
    """
    kept = dict(data)
    if name is not None:
        kept["name"] = name
    _known(kept, Target, "A target")
    if "name" not in kept:
        raise InvalidRequest('The target has no name. Add one: name = "…".', "name")
    if kept.get("ssh") is not None:
        if not isinstance(kept["ssh"], Mapping):
            raise InvalidRequest("“ssh” must be a table with its own fields: host, user, port and others.", "ssh")
        kept["ssh"] = {key: value for key, value in kept["ssh"].items() if key != "host_keys"}
        _known(kept["ssh"], Ssh, "The SSH connection")
        _lists(kept["ssh"], ("jump",))
        if "host" not in kept["ssh"]:
            raise InvalidRequest('The SSH connection has no host. Add one: host = "…".', "host")
    _lists(kept, ("modules",))
    for word in ("environment", "starters"):
        value = kept.get(word, {})
        if not isinstance(value, Mapping) or not all(isinstance(text, str) for text in value.values()):
            raise InvalidRequest(f"“{word}” must map names to strings.", word)
    for word, kind in (("scheduler", SchedulerName), ("mpi", MpiFlavor)):
        if kept.get(word) is not None and kept[word] not in [each.value for each in kind]:
            raise InvalidRequest(f"“{str(kept[word])[:40]}” is not valid. Use one of: {', '.join(kind)}.", word)
    return require_valid(Target.from_json(kept))


def to_data(target: Target) -> dict[str, Any]:
    """A target for a file to exchange: what differs from its default, and no key of a host."""
    data = _changed(target, Target(target.name))
    data["name"] = target.name
    if target.ssh is not None:
        data["ssh"] = {"host": target.ssh.host} | _changed(target.ssh, Ssh(target.ssh.host))
        data["ssh"].pop("host_keys", None)
    return {key: data[key] for key in target.to_json() if key in data}


def parse_jump_host(text: str) -> JumpHost:
    """A host on the way as it is written: [user@]host[:port], an IPv6 address in brackets. Raises InvalidRequest."""
    user, at, rest = text.rpartition("@")
    bracket = re.fullmatch(r"\[([^\]]*)\](?::(.*))?", rest)
    if bracket:
        host, port = bracket[1], bracket[2]
    else:
        host, _, port_text = rest.partition(":")
        port = port_text if ":" in rest else None
    wrong = f"“{text[:80]}” is not a valid jump host. Write [user@]host[:port]."
    if len(text) > 400 or not HOST.fullmatch(host) or (at and not USER.fullmatch(user)):
        raise InvalidRequest(wrong, "jump")
    if port is not None and not (re.fullmatch(r"[0-9]{1,5}", port) and 1 <= int(port) <= 65535):
        raise InvalidRequest(wrong, "jump")
    return JumpHost(host, user, None if port is None else int(port))


def _messages(target: Target) -> Iterator[tuple[str, str | None]]:
    yield "name", name_problem(target.name)
    if target.ssh is not None:
        yield from _ssh(target.ssh)
    if target.name == LOCAL and not target.is_local:
        yield "name", "The name “local” is reserved for this machine. Choose another name."
    yield "directory", _place(target.directory, "The directory")
    yield "scratch", _place(target.scratch, "The scratch directory")
    yield "perf", program_problem(target.perf, "perf") if target.perf != "" else None
    yield "modules", _each(target.modules, _module, "modules")
    yield "environment", _environment(target.environment)
    yield "starters", _starters(target.starters)
    needed = MPI_LAUNCHERS[target.mpi].scheduler if target.mpi in MPI_LAUNCHERS else ""
    if target.mpi is not None and needed and target.scheduler != needed:
        title, system = mpi_title(target.mpi, short=True), scheduler_title(needed)
        yield (
            "mpi",
            f"{title} works only with {system}. Choose {system} as the batch system, or another MPI implementation.",
        )
    yield "sudo", _switch(target.sudo)
    yield "counters", _number(target.counters, 1, 64, "events per run", whole=True)
    yield "poll_s", _number(target.poll_s, 0.2, 3600, "seconds between two polls", needed=True)
    yield "notes", text_problem(target.notes, "The text", lines=True)


def _ssh(ssh: Ssh) -> Iterator[tuple[str, str | None]]:
    yield "host", _host(ssh.host)
    yield "user", None if ssh.user == "" else _fits(ssh.user, USER, 100, "the name of a user")
    yield "port", _number(ssh.port, 1, 65535, "as a port", whole=True)
    yield "key_file", _file(ssh.key_file) if ssh.key_file != "" else None
    for word in ("agent", "config", "password"):
        yield word, _switch(getattr(ssh, word))
    yield "jump", _each(ssh.jump, _jump, "jump hosts")
    yield "host_keys", _each(ssh.host_keys, _host_key, "host keys")
    yield "connect_timeout_s", _number(ssh.connect_timeout_s, 1, 600, "seconds", needed=True)


def name_problem(name: Any) -> str | None:
    """Why a target cannot be called so."""
    if not isinstance(name, str) or not name:
        return "Enter a name."
    if len(name) > MAX_NAME:
        return f"The name has {len(name):,} characters. Use at most {MAX_NAME}."
    if not NAME.fullmatch(name) or name != name.strip() or name.endswith("."):
        return "A name starts with a letter or digit, and contains only letters, digits, spaces and . _ - + @."
    if name.lower() in RESERVED:
        return f"“{name}” is reserved. Choose another name."
    return None


def text_problem(text: Any, what: str, *, lines: bool = False) -> str | None:
    """What makes a text unfit to be kept or given to a program. lines: whether it may have several."""
    if not isinstance(text, str):
        return f"{what} must be a string."
    try:
        length = len(text.encode())
    except UnicodeEncodeError:
        return f"{what} contains bytes that are not UTF-8. Remove them."
    if length > MAX_TEXT:
        return f"{what} has {length:,} bytes. Use at most {MAX_TEXT:,}."
    allowed = "\n\t" if lines else ""
    if any((character < " " or "\x7f" <= character <= "\x9f") and character not in allowed for character in text):
        return f"{what} contains a nonprintable character, such as a line break. Remove it."
    return None


def program_problem(value: Any, what: str) -> str | None:
    """Why a program cannot be called so: a name that PATH finds, or an absolute path."""
    problem = text_problem(value, f"The name of {what}")
    if problem is not None:
        return problem
    if value.startswith("/"):
        return (
            None if len(value) <= MAX_PATH and not value.endswith("/") else f"The path of {what} does not name a file."
        )
    if len(value) > 200 or not PROGRAM.fullmatch(value):
        return f"“{value[:80]}” is neither the name of a program nor an absolute path. Start a path with /."
    return None


def _host(host: Any) -> str | None:
    if not isinstance(host, str) or not host:
        return "Enter the name or address of the host, or its alias in ~/.ssh/config."
    if "@" in host:
        return "Enter only the host. The user has its own field."
    if re.fullmatch(r"[^:]+:[0-9]+", host):
        return "Enter only the host. The port has its own field."
    return _fits(host, HOST, 255, "the name or address of a host")


def _fits(text: Any, pattern: re.Pattern[str], most: int, what: str) -> str | None:
    if not isinstance(text, str):
        return f"{what[:1].upper()}{what[1:]} must be a string."
    if len(text) > most or not pattern.fullmatch(text):
        return f"“{text[:80]}” cannot be {what}. Correct it."
    return None


def _file(path: Any) -> str | None:
    problem = text_problem(path, "The path of the key file")
    if problem is None and not path.startswith(("/", "~/")):
        return "Enter the absolute path of the private key on the worker's machine. It may start with ~/."
    if problem is None and (len(path) > MAX_PATH or path.endswith("/")):
        return "This path does not name a file."
    return problem


def _jump(text: Any) -> str | None:
    if not isinstance(text, str):
        return "A jump host must be a string."
    try:
        parse_jump_host(text)
    except InvalidRequest as error:
        return error.message
    return None


def _host_key(line: Any) -> str | None:
    wrong = "This is not a line of a known_hosts file: host, key type, key."
    if text_problem(line, "The key of a host", lines=False) is not None:
        return wrong
    words = line.split()
    if len(words) < 3 or words[0].startswith("@") or not _KEY_TYPE.fullmatch(words[1]):
        return wrong
    try:
        blob = base64.b64decode(words[2], validate=True)
    except (binascii.Error, ValueError):
        return wrong
    # The key begins with the length of the name of its sort, and that name.
    kind = words[1].encode()
    return None if blob.startswith(len(kind).to_bytes(4) + kind) else wrong


def _place(path: Any, what: str) -> str | None:
    if path == "":
        return None
    problem = text_problem(path, what)
    if problem is not None:
        return problem
    if not path.startswith(("/", "~/", "$")) and path != "~":
        return f"{what} “{path[:80]}” is not an absolute path. Start it with /, ~/ or a variable such as $HOME."
    if len(path) > MAX_PATH:
        return f"The path of {what[:1].lower()}{what[1:]} has {len(path):,} characters. Linux allows {MAX_PATH:,}."
    if ".." in path.split("/"):
        return f"{what} contains “..”. Write the path without it."
    if path.strip("/") == "":
        return f"{what} must not be the root directory. Choose one of your directories."
    try:
        path_variables.path_variables(path)
    except InvalidRequest as error:
        return error.message
    return None


def _module(text: Any) -> str | None:
    problem = text_problem(text, "The name of a module")
    if problem is None and (len(text) > 200 or not MODULE.fullmatch(text)):
        return f"“{text[:80]}” is not a valid module name, such as openmpi/4.1. Write one per line."
    return problem


def _environment(environment: Any) -> str | None:
    if not isinstance(environment, dict):
        return "Environment variables must map names to strings."
    if len(environment) > MAX_COUNT:
        return f"The target has {len(environment):,} variables. Use at most {MAX_COUNT}."
    for name, value in environment.items():
        if not isinstance(name, str) or len(name) > 200 or not path_variables.VARIABLE.fullmatch(name):
            return f"“{str(name)[:60]}” is not a valid variable name. Use letters, digits and _, and no digit first."
        if name.startswith(path_variables.RESERVED_PREFIXES):
            return f"The variable {name[:60]} is reserved for Perfloom. Use another name."
        if not isinstance(value, str) or "\0" in value or text_problem(value.translate(_CONTROLS), "It"):
            return f"The value of {name[:60]} contains a zero byte, which cannot be passed to a program. Remove it."
    return None


def _starters(starters: Any) -> str | None:
    if not isinstance(starters, dict):
        return "MPI launchers must map MPI implementations to names of programs."
    for flavour, program in starters.items():
        if flavour not in [each.value for each in MpiFlavor]:
            return f"“{str(flavour)[:40]}” is not a known MPI implementation. Use one of: {', '.join(MpiFlavor)}."
        problem = program_problem(program, f"the launcher of {flavour}")
        if problem is not None:
            return problem
    return None


def _each(values: Any, problem: Any, what: str) -> str | None:
    if not isinstance(values, list | tuple):
        return f"This must be a list of {what}."
    if len(values) > MAX_COUNT:
        return f"The list has {len(values):,} {what}. Use at most {MAX_COUNT}."
    return next(filter(None, map(problem, values)), None)


def _switch(value: Any) -> str | None:
    return None if isinstance(value, bool) else "This must be true or false."


def _number(
    value: Any, least: float, most: float, what: str, *, whole: bool = False, needed: bool = False
) -> str | None:
    if value is None and not needed:
        return None
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        return f"This must be {'a whole' if whole else 'a'} number."
    # Written so that what is no number at all (NaN) is out of range.
    return None if least <= value <= most else f"{value:,} is out of range. Use {least:,} to {most:,} {what}."


def _known(data: Mapping[str, Any], kind: type[Any], what: str) -> None:
    known = {each.name for each in fields(kind)}
    for key in data:
        if key not in known:
            raise InvalidRequest(f"{what} has no field “{str(key)[:60]}”. Its fields are: {', '.join(sorted(known))}.")


def _lists(data: Mapping[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        value = data.get(name, [])
        if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
            raise InvalidRequest(f"“{name}” must be a list of strings.", name)


def _changed(one: Any, plain: Any) -> dict[str, Any]:
    values: dict[str, Any] = {each.name: getattr(one, each.name) for each in fields(one) if each.name != "ssh"}
    return {name: value for name, value in values.items() if value != getattr(plain, name)}
