"""The form of a target: fields as typed ↔ Target, with an error by field and the typed text kept whatever happens."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ...domain.errors import InvalidRequest
from ...domain.jobs import MpiFlavor
from ...domain.targets import LOCAL, SchedulerName, Ssh, Target
from . import target_validity
from .values import (
    format_number,
    format_variables,
    parse_duration,
    parse_int,
    parse_variables,
)

BOOL_FIELDS = ("agent", "config", "password", "keep", "sudo")
SSH_FIELDS = ("host", "user", "port", "key_file", "jump", "agent", "config", "password", "keep", "connect_timeout")
"""Those without meaning for the worker's own machine."""
FIELD_OF = {"connect_timeout_s": "connect_timeout", "poll_s": "poll", "host_keys": "host", "ssh": "host"}
"""Names in Target and Ssh that the form has under others."""


@dataclass(frozen=True)
class TargetForm:
    """What stands in the form, as typed. way: "ssh" or "here". jump, modules, environment, starters: one a line."""

    name: str = ""
    way: str = "ssh"
    host: str = ""
    user: str = ""
    port: str = ""
    key_file: str = ""
    agent: bool = True
    config: bool = True
    jump: str = ""
    password: bool = False
    keep: bool = False
    connect_timeout: str = ""
    scheduler: str = "none"
    directory: str = ""
    scratch: str = ""
    perf: str = ""
    modules: str = ""
    environment: str = ""
    mpi: str = ""
    starters: str = ""
    sudo: bool = False
    counters: str = ""
    poll: str = ""
    notes: str = ""

    @classmethod
    def from_form(cls, values: Mapping[str, Sequence[str]]) -> "TargetForm":
        """From the lists of values of a posted form; what is missing is empty, and a switch off."""
        typed: dict[str, Any] = {}
        for each in fields(cls):
            posted = values.get(each.name, ())
            if each.name in BOOL_FIELDS:
                typed[each.name] = any(posted)
            elif posted:
                typed[each.name] = posted[-1].replace("\r\n", "\n")
        return cls(**typed)


@dataclass(frozen=True)
class ParsedTarget:
    """A target, or the reasons why there is none: a sentence by field."""

    target: Target | None
    errors: dict[str, str] = field(default_factory=dict)


def to_form(target: Target) -> TargetForm:
    """The form of a target; `parse` gives the target back."""
    ssh = target.ssh
    plain = Target("")
    typed = TargetForm(
        name=target.name,
        way="here" if ssh is None else "ssh",
        scheduler=target.scheduler.value,
        directory=target.directory,
        scratch=target.scratch,
        perf=target.perf,
        modules="\n".join(target.modules),
        environment=format_variables(target.environment),
        mpi=target.mpi.value if target.mpi else "",
        starters="\n".join(f"{flavour}={program}" for flavour, program in target.starters.items()),
        sudo=target.sudo,
        counters=format_number(target.counters),
        poll="" if target.poll_s == plain.poll_s else format_number(target.poll_s),
        notes=target.notes,
    )
    if ssh is None:
        return typed
    return replace(
        typed,
        host=ssh.host,
        user=ssh.user,
        port=format_number(ssh.port),
        key_file=ssh.key_file,
        agent=ssh.agent,
        config=ssh.config,
        jump="\n".join(ssh.jump),
        password=ssh.password,
        keep=ssh.keep,
        connect_timeout=""
        if ssh.connect_timeout_s == Ssh("").connect_timeout_s
        else format_number(ssh.connect_timeout_s),
    )


def parse(typed: TargetForm, earlier: Target | None = None) -> ParsedTarget:
    """The target that was typed, or an error for each field that has one. Never raises.

    Fields without meaning are not looked at. earlier: what the form was filled from; accepted keys of hosts, which the
    form does not show, are taken over from it as long as the host is the same.
    """
    errors: dict[str, str] = {}

    def take(name: str, convert: Any, text: str) -> Any:
        try:
            return convert(text)
        except InvalidRequest as error:
            errors[name] = error.message
            return None

    if typed.way not in ("ssh", "here"):
        errors["way"] = f"“{typed.way[:40]}” is not valid. Choose SSH or this machine."
    ssh = None
    if typed.way == "ssh":
        port = take("port", parse_int, typed.port)
        timeout = take("connect_timeout", parse_duration, typed.connect_timeout)
        ssh = Ssh(
            host=typed.host.strip(),
            user=typed.user.strip(),
            port=port,
            key_file=typed.key_file.strip(),
            agent=typed.agent,
            config=typed.config,
            jump=tuple(re.split(r"[\s,]+", typed.jump.strip())) if typed.jump.strip() else (),
            password=typed.password,
            keep=typed.keep,
            connect_timeout_s=Ssh("").connect_timeout_s if timeout is None else timeout,
        )
        if earlier is not None and earlier.ssh is not None and _same_way(earlier.ssh, ssh):
            ssh = replace(ssh, host_keys=earlier.ssh.host_keys)
    poll = take("poll", parse_duration, typed.poll)
    target = Target(
        name=typed.name.strip(),
        ssh=ssh,
        scheduler=_choice("scheduler", SchedulerName, typed.scheduler, errors) or SchedulerName.NONE,
        directory=typed.directory.strip(),
        scratch=typed.scratch.strip(),
        perf=typed.perf.strip(),
        modules=tuple(typed.modules.split()),
        environment=take("environment", parse_variables, typed.environment) or {},
        mpi=_choice("mpi", MpiFlavor, typed.mpi, errors) if typed.mpi else None,
        starters=take("starters", _starters, typed.starters) or {},
        sudo=typed.sudo,
        counters=take("counters", parse_int, typed.counters),
        poll_s=Target("").poll_s if poll is None else poll,
        notes=typed.notes.strip(),
    )
    # A field that could not be read keeps its own message.
    found = {
        FIELD_OF.get(name, name): message for name, message in target_validity.validate_target(target).items()
    } | errors
    if target.name == LOCAL and typed.way == "here" and not target.is_local and "name" in found:
        found["scheduler"] = found.pop("name")
    return ParsedTarget(None if found else target, found)


def _same_way(one: Ssh, other: Ssh) -> bool:
    return (one.host, one.port, one.jump) == (other.host, other.port, other.jump)


def _choice(name: str, kind: Any, text: str, errors: dict[str, str]) -> Any:
    try:
        return kind(text)
    except ValueError:
        errors[name] = f"“{text[:40]}” is not valid. Use one of: {', '.join(kind)}."
        return None


def _starters(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        flavour, mark, program = (word.strip() for word in line.partition("="))
        if not mark or not program:
            raise InvalidRequest(
                f"Line {number} is not of the form implementation=program, as in openmpi=mpirun.openmpi."
            )
        found[flavour] = program
    return found
