"""Scripts that create a job's directory at a target, start its submissions at most once, and end them."""

from ...domain.errors import InvalidRequest, Unavailable
from ...domain.jobs import JobSpec
from ...domain.targets import Target
from ..quoting import quote, shell_word
from ..schedulers import scheduler_of
from ..scripts import script_text
from .path_variables import expand_path
from .target_environment import environment_functions, in_target_environment

DIRECTORY_MARKER = "perfloom job directory"
"""The first line of the file .perfloom. Only directories with it are removed."""
DEFAULT_DIRECTORY = "~/.perfloom"
"""The default job directory of a target."""
UNANSWERED_MARKER = "perfloom-begun-without-an-answer"
ID_WAIT_S = 20
"""How long a script waits for the id of a submission that it, or another script, started."""


def job_name(job_id: str, number: int) -> str:
    """The name of a submission in the batch system."""
    return f"perfloom-{job_id}-{number}"


def resolve_directory_script(target: Target, job_id: str) -> str:
    """sh: create the target's job directory, and print the absolute path of this job's directory in it."""
    return _script(
        environment_functions(target),
        "pl_set_environment",
        f"pl_base={shell_word(expand_path(target.directory or DEFAULT_DIRECTORY))}",
        f"pl_id={quote(job_id)}",
        script_text("plan/resolve_directory.sh"),
        first="umask 077",
    )


def create_directory_script(directory: str) -> str:
    """sh: create the job's directory. Fails with a message if it exists and is another's, or if the disk is full.

    May be repeated.
    """
    return _script(
        f"pl_directory={quote(require_absolute(directory))}",
        f"pl_mark={quote(DIRECTORY_MARKER)}",
        script_text("plan/create_directory.sh"),
        first="umask 077",
    )


def submit_script(target: Target, spec: JobSpec, job_id: str, directory: str, number: int) -> str:
    """sh: start the submission `number` at most once, however often the script is run, and print its id.

    Without a batch system it starts in a separate session, which outlives the connection. With one, it is submitted.
    Raises InvalidRequest for options that the batch system does not support.
    """
    scheduler = scheduler_of(target.scheduler)
    start = [
        f"pl_directory={quote(require_absolute(directory))}",
        f"pl_number={number}",
        f"pl_half={UNANSWERED_MARKER}",
    ]
    start += [f"pl_tries={ID_WAIT_S * 20}", '. "$pl_directory/common.sh" || exit 1']
    wait = script_text("plan/wait_for_file.sh")
    if scheduler is None:
        return _script(*start, wait, script_text("plan/start.sh"))
    script = ("/bin/sh", f"{directory}/job.sh", directory, str(number))
    argv = scheduler.submit_command(spec, job_name(job_id, number), script, f"{directory}/sub{number}.log")
    submit = ("pl_submit() (", in_target_environment(target, argv), ")")
    return _script(*start, *submit, wait, script_text("plan/submit.sh"))


def parse_submit_output(target: Target, stdout: str, stderr: str, status: int | None) -> str:
    """The id of what `submit_script` started: of the batch system, or "pid start-time boot".

    Empty: it was begun, and its result is unknown. Search for its name in the batch system for a while; without a batch
    system the job is lost. Raises InvalidRequest with the reason if it was rejected, Unreachable if the batch system
    does not answer (it may have been submitted: search for its name; if it does not exist, run
    `reset_submission_script` and start it again), Unavailable if the script itself could not be run.
    """
    if stdout.strip() == UNANSWERED_MARKER:
        return ""
    scheduler = scheduler_of(target.scheduler)
    if scheduler is not None:
        return scheduler.parse_submit_output(stdout, stderr, -1 if status is None else status)
    words = stdout.split()
    if status != 0 or len(words) != 3 or not (words[0].isdigit() and words[1].isdigit()):
        message = " ".join(stderr.split())[-300:]
        raise Unavailable(f"The job could not be started at {target.name}: {message or 'its script printed nothing'}")
    return " ".join(words)


def reset_submission_script(directory: str, number: int) -> str:
    """sh: remove the mark that a submission was begun, so that `submit_script` submits it again. Only for one that
    certainly does not exist."""
    return _script(
        f"cd {quote(require_absolute(directory))} || exit 1", f"rm -rf ./sub{number}.begun ./sub{number}.status"
    )


def cancel_script(directory: str, *, gently: bool) -> str:
    """sh: end a submission without a batch system. gently: let it complete its files, else kill all its processes."""
    end = "pl_ask_all" if gently else "pl_kill_all"
    return _script(f"cd {quote(require_absolute(directory))} || exit 0", script_text("plan/cancel.sh"), end)


def require_absolute(directory: str) -> str:
    if not directory.startswith("/") or directory.rstrip("/").count("/") < 1 or ".." in directory.split("/"):
        raise InvalidRequest(f"{directory[:200]} is not an absolute path of a job's directory.", "directory")
    return directory


def _script(*lines: str, first: str = "") -> str:
    return "\n".join(line.removesuffix("\n") for line in (first, *lines) if line) + "\n"
