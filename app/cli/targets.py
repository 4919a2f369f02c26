"""target: add, check, export, import and delete named places to run jobs."""

import shlex
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..domain.errors import Conflict, HostKeyUnknown, InvalidRequest
from ..domain.jobs import Batch
from ..domain.targets import LOCAL, TARGET_FIELDS, CheckStatus, SchedulerName, Ssh, Target
from ..domain.units import format_utc_iso
from .field_options import option_name, option_values, raise_problems, target_options
from .options import data_option, format_option, open_store, typed_options
from .output import STDIO, escape_controls, read_settings, write_rows, write_settings

if TYPE_CHECKING:
    from ..recording.probe.check_messages import CheckResult
    from ..store import Store, StoredTarget

LIGHT_LABELS = {CheckStatus.GOOD: "ok", CheckStatus.NOTE: "note", CheckStatus.BAD: "TO DO"}
EXIT_CHECK_FAILED = 4
POLL_INTERVAL_S = 2.0
LIST_COLUMNS = ("name", "where", "scheduler", "checked", "good", "note", "bad", "jobs")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def target() -> None:
    """Named places to run jobs: hosts over SSH, batch systems, this machine. `record --on NAME` uses one."""


@target.command("list")
@format_option
@data_option
def list_(output_format: str, data: Path | None) -> int:
    """List targets, with a summary of their last check."""
    from ..recording.probe.target_text import target_location

    with open_store(data) as store:
        active = store.jobs.active_by_target(kind="record")
        rows = [
            {
                "name": one.name,
                "where": one.problem or target_location(one.target),
                "scheduler": None if one.problem else one.target.scheduler.value,
                "checked": None if one.checked is None else format_utc_iso(one.checked),
                **{light.value: sum(line.light is light for line in one.lines) for light in CheckStatus},
                "jobs": active.get(one.name, 0),
            }
            for one in store.targets.list()
        ]
    write_rows(LIST_COLUMNS, rows, output_format)
    return 0


@target.command()
@format_option
@data_option
@click.argument("name")
def show(output_format: str, data: Path | None, name: str) -> int:
    """Show the settings of NAME, and what its last check found."""
    with open_store(data) as store:
        stored = store.targets.get(name)
    if output_format == "json":
        import json

        found = {
            "target": stored.target.to_json(),
            "checked": stored.checked,
            "lines": [vars(line) for line in stored.lines],
            "facts": stored.facts.to_json() if stored.facts else None,
        }
        click.echo(json.dumps(found, indent=1))
    elif output_format == "csv":
        write_rows(("title", "light", "text", "advice"), [vars(line) for line in stored.lines], output_format)
    else:
        from ..recording.fields.target_file import to_file

        click.echo(escape_controls(to_file(stored.target, "toml"), lines=True), nl=False)
        _print_lines(stored)
    return 0


@target.command()
@target_options
@click.option("--replace", "anew", is_flag=True, help="Overwrite a target of that name.")
@data_option
@click.argument("name")
@click.pass_context
def add(context: click.Context, /, name: str, anew: bool, data: Path | None, **given: Any) -> int:
    """Add a target NAME: a host over SSH, or this machine with a batch system."""
    from ..recording.fields.target_validity import validate_target

    problems: dict[str, str] = {}
    target_to_save = _build_target(name, typed_options(context, given), problems)
    raise_problems(validate_target(target_to_save) | problems, TARGET_FIELDS)
    with open_store(data) as store:
        _save(store, target_to_save, anew)
    return 0


@target.command()
@click.option("--probe", is_flag=True, help="Also check a compute node, with a batch job.")
@click.option("--queue", default="", help="With --probe: queue or partition.")
@click.option("--project", default="", help="With --probe: project or account that is charged.")
@click.option("--argument", "arguments", multiple=True, metavar="ARG", help="With --probe: argument of bsub or sbatch.")
@data_option
@click.argument("name")
def check(name: str, probe: bool, queue: str, project: str, arguments: tuple[str, ...], data: Path | None) -> int:
    """Connect to NAME and print line by line what works; exit with 4 if something needs action.

    The connection is from this process, so it can use your shell's SSH agent, and ask for passwords.
    """
    if not probe and (queue or project or arguments):
        raise click.UsageError("--queue, --project and --argument need --probe: add it.")
    with open_store(data) as store:
        stored = store.targets.get(name)
        if probe and stored.target.scheduler is SchedulerName.NONE:
            raise InvalidRequest("This target has no batch system to submit a probe job to.", "probe")
        from ..workers.remote import checks

        batch = Batch(queue=queue, project=project, arguments=arguments) if probe else None
        try:
            answer = _check_target(store, name, batch)
        except HostKeyUnknown as error:
            checks.save_unknown_key(store, name, error)
            raise InvalidRequest(f"{error.message} To accept it: perfloom target accept {shlex.quote(name)}") from None
        stored = store.targets.get(name)
    _print_lines(stored)
    if answer.trouble:
        click.echo(f"perfloom: {escape_controls(answer.trouble)}", err=True)
    return EXIT_CHECK_FAILED if answer.trouble or any(line.light is CheckStatus.BAD for line in stored.lines) else 0


@target.command()
@click.option("--fingerprint", metavar="SHA256:...", help="Accept only this fingerprint, without asking.")
@data_option
@click.argument("name")
def accept(name: str, fingerprint: str | None, data: Path | None) -> int:
    """Show the fingerprints of unknown host keys on the way to NAME, and ask whether to accept them."""
    from ..recording.probe.target_text import fingerprint as fingerprint_of

    with open_store(data) as store:
        accepted = 0
        while True:
            stored = store.targets.get(name)
            if stored.target.ssh is None:
                raise InvalidRequest(f"The target {name} is this machine, which has no host key to accept.", "name")
            unknown_key = _unknown_key(stored.target)
            if unknown_key is None:
                break
            click.echo(
                f"{escape_controls(unknown_key.host)} has a host key with the fingerprint\n\n    "
                f"{escape_controls(unknown_key.fingerprint)}\n",
                err=True,
            )
            known = fingerprint_of(unknown_key.key)
            if fingerprint is not None and fingerprint != known:
                raise Conflict(
                    f"This is not {escape_controls(fingerprint)}. Nothing was accepted: ask the host's administrator."
                )
            question = "Is it the fingerprint that you have from the host's administrator? Accept it"
            if fingerprint is None and not click.confirm(question, default=False, err=True):
                raise Conflict("Nothing was accepted.")
            ssh = replace(stored.target.ssh, host_keys=(*stored.target.ssh.host_keys, unknown_key.key))
            store.targets.save(replace(stored.target, ssh=ssh))
            accepted += 1
    if not accepted:
        click.echo("perfloom: All host keys on the way are already accepted.", err=True)
    return 0


@target.command()
@data_option
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def delete(data: Path | None, names: tuple[str, ...]) -> int:
    """Delete targets. Their jobs and results are kept, and nothing is removed on the hosts."""
    with open_store(data) as store:
        for name in names:
            if store.targets.describe(name) is None:
                store.targets.get(name)
        for name in names:
            store.targets.delete(name)
    return 0


@target.command()
@click.option("--format", "file_format", type=click.Choice(["toml", "json"]), default="toml", show_default=True)
@click.option("--output", "-o", default=STDIO, metavar="OUT", help="File to write; - is standard output.")
@data_option
@click.argument("name")
def export(name: str, file_format: str, output: str, data: Path | None) -> int:
    """Write NAME to a file for exchange, without secrets and host keys."""
    from ..recording.fields.target_file import to_file

    with open_store(data) as store:
        text = to_file(store.targets.get(name).target, file_format)
    write_settings(text, output)
    return 0


@target.command("import")
@click.option("--name", help="Overrides the name in the file.")
@click.option("--replace", "anew", is_flag=True, help="Overwrite a target of that name.")
@data_option
@click.argument("file")
def import_(file: str, name: str | None, anew: bool, data: Path | None) -> int:
    """Add the target in FILE (TOML or JSON; - is standard input) and print its name."""
    from ..recording.fields.serialization import MAX_BYTES
    from ..recording.fields.target_file import from_file

    text = read_settings(file, MAX_BYTES)
    target_to_save = from_file(text, name)
    with open_store(data) as store:
        _save(store, target_to_save, anew)
    click.echo(target_to_save.name)
    return 0


def _build_target(name: str, given: dict[str, Any], problems: dict[str, str]) -> Target:
    """The target of the options. Values that cannot be read are in `problems`. Raises UsageError."""
    values = option_values(given, TARGET_FIELDS, problems)
    values[""]["name"] = name
    if values["ssh"] and "host" not in values["ssh"]:
        first = next(option_name(field, TARGET_FIELDS) for field in given if TARGET_FIELDS[field].part)
        raise click.UsageError(f"{first} needs SSH: add --ssh HOST.")
    return Target(**values[""], ssh=Ssh(**values["ssh"]) if values["ssh"] else None)


def _save(store: "Store", target_to_save: Target, anew: bool) -> None:
    if target_to_save.name == LOCAL and not anew:
        raise Conflict("The target local always exists. Change it with --replace.")
    if not anew and store.targets.find(target_to_save.name) is not None:
        raise Conflict(f"A target {target_to_save.name!r} already exists. Choose another name, or add --replace.")
    store.targets.save(target_to_save)


def _unknown_key(place: Target) -> HostKeyUnknown | None:
    """An unknown host key on the way there."""
    from ..workers.serve.secret_prompts import ask_on_terminal
    from ..workers.transports import open_transport

    try:
        with open_transport(place, ask_on_terminal) as transport:
            transport.run("true")
    except HostKeyUnknown as error:
        return error
    return None


def _check_target(store: "Store", name: str, batch: Batch | None) -> "CheckResult":
    """Check it here and now, and wait for a probe job."""
    from ..recording.probe.check_messages import CheckRequest, follow_up
    from ..workers.remote import checks
    from ..workers.serve.secret_prompts import ask_on_terminal

    question = CheckRequest(name, batch)
    answer = checks.run_check(store, question, ask_on_terminal)
    shown = ""
    try:
        while (following := follow_up(question, answer)) is not None:
            job = following.job
            assert job is not None
            text = f"perfloom: The probe job {job.id} is {job.state}{': ' + job.reason if job.reason else ''}"
            if text != shown:
                click.echo(escape_controls(text), err=True)
                shown = text
            time.sleep(POLL_INTERVAL_S)
            answer = checks.run_check(store, following, ask_on_terminal)
    except KeyboardInterrupt:
        if (following := follow_up(question, answer)) is not None:
            click.echo("perfloom: The probe job is cancelled.", err=True)
            checks.run_check(store, replace(following, cancel=True), ask_on_terminal)
        raise
    return answer


def _print_lines(stored: "StoredTarget") -> None:
    """The report of the last check, with advice below each line."""
    width = max((len(line.title) for line in stored.lines), default=0)
    for line in stored.lines:
        click.echo(f"{LIGHT_LABELS[line.light]:5}  {escape_controls(line.title):{width}}  {escape_controls(line.text)}")
        if line.advice:
            click.echo(f"{'':5}  {'':{width}}  → {escape_controls(line.advice)}")
    if stored.checked is None:
        click.echo("perfloom: This target was never checked.", err=True)


commands: list[click.Command] = [target]
