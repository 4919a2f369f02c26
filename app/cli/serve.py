"""serve, worker, web, demo: commands that run in the foreground until they are ended."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..domain.errors import JobFailed
from ..domain.jobs import CallGraph, JobSpec, JobState
from .options import data_option, load_settings

if TYPE_CHECKING:
    from ..config import Settings
    from ..store.jobs import Job

F = TypeVar("F", bound=Callable[..., Any])
_verbose = click.option("--verbose", "-v", is_flag=True, help="Log more to standard error.")


def _address(command: F) -> F:
    """Where to listen."""
    host = click.option("--host", metavar="ADDRESS", help="Address to listen on.  [default: 127.0.0.1]")
    ports = click.IntRange(0, 65535)
    port = click.option("--port", type=ports, help="Port to listen on; 0 uses a free one.  [default: 8000]")
    return host(port(command))


_run_as = click.option(
    "--run-as",
    metavar="USER",
    help="User that recorded programs run as on this machine; needs root, or sudo without a password.",
)


@click.command()
@_address
@_run_as
@data_option
@_verbose
def serve(host: str | None, port: int | None, run_as: str | None, data: Path | None, verbose: bool) -> None:
    """Run web server, worker and queue until Ctrl-C.

    Nothing else needs to run: the database is a file, and a private Redis is started.
    """
    from ..workers.serve import server

    _log(verbose)
    with server.run_server(load_settings(data, host=host, port=port, run_as=run_as)) as here:
        click.echo(here.link("/"))
        _print_token_place(here.settings)
        here.wait()


@click.command()
@_address
@data_option
@_verbose
def demo(host: str | None, port: int | None, data: Path | None, verbose: bool) -> None:
    """Serve, record a small bundled program, and print the address of its flame graph."""
    from .. import workload
    from ..workers.serve import server

    def watch(job: "Job") -> None:
        if not job.state.final:
            click.echo(f"perfloom: the demo is {job.state}", err=True)

    graph = CallGraph(workload.call_graph())
    spec = JobSpec(name="Demo: a text pipeline", command=tuple(workload.command()), call_graph=graph)
    _log(verbose)
    with server.run_server(load_settings(data, host=host, port=port)) as here:
        click.echo(f"perfloom: the pages are at {here.link('/')}", err=True)
        _print_token_place(here.settings)
        job = here.record(spec, watch)
        if job is None:
            return
        if job.state is not JobState.STORED:
            raise JobFailed(f"The demo could not be recorded. {job.reason or ''}".strip())
        click.echo(f"perfloom: {workload.note()}", err=True)
        click.echo(here.link(f"/results/{job.id}/flamegraph"))
        click.echo("perfloom: Ctrl-C ends the server.", err=True)
        here.wait()


@click.command()
@click.option(
    "--queue",
    "queues",
    type=click.Choice(["launch", "target", "read"]),
    multiple=True,
    help="Work only on this queue: launch starts and monitors programs here, target monitors jobs on other machines "
    "and in batch systems, read reads recordings.  [default: all]",
)
@_run_as
@data_option
@_verbose
def worker(queues: tuple[str, ...], run_as: str | None, data: Path | None, verbose: bool) -> None:
    """Run jobs of this data directory until Ctrl-C. Programs are recorded on this machine."""
    from ..workers.serve import server

    _log(verbose)

    def report(text: str) -> None:
        click.echo(f"perfloom: {text}", err=True)

    server.run_workers(load_settings(data, run_as=run_as), queues or ("launch", "target", "read"), report)


@click.command()
@_address
@click.option(
    "--processes", type=click.IntRange(1, 64), default=1, show_default=True, help="Number of server processes."
)
@data_option
@_verbose
def web(host: str | None, port: int | None, processes: int, data: Path | None, verbose: bool) -> None:
    """Run only the web server, until Ctrl-C. Jobs wait for a `perfloom worker`."""
    from ..store import open_store
    from ..workers.serve import server, web_server

    settings = load_settings(data, host=host, port=port)
    server.require_token(settings)
    _log(verbose)
    open_store(settings).close()
    with web_server.listen(settings) as listening:
        settings = server.trust_own_name(replace(settings, port=listening.getsockname()[1]))
        where = "PERFLOOM_TOKEN" if settings.configured_token else f"the file {settings.data / 'token'}"
        assert settings.token  # Created here, before several processes need it.
        click.echo(f"http://{web_server.address(settings)}/ (the token is in {where})")
        web_server.serve(settings, descriptor=listening.detach(), processes=processes, shared=True)


def _print_token_place(settings: "Settings") -> None:
    """A message about the location of the token, which a printed address lacks."""
    if settings.configured_token:
        click.echo("perfloom: The pages require the token in PERFLOOM_TOKEN.", err=True)


def _log(verbose: bool) -> None:
    from ..workers.serve.logs import set_up_logging

    if verbose:
        os.environ["PERFLOOM_VERBOSE"] = "1"
    set_up_logging(verbose)


commands: list[click.Command] = [serve, worker, web, demo]
