"""Scripts that make a job's directory at a target, start its submissions there at most once, and end them."""

from ...domain.errors import InvalidRequest, Unavailable
from ...domain.jobs import JobSpec
from ...domain.targets import Target
from ..schedulers import scheduler_of
from .path_variables import expand_path
from .quoting import quote, shell_word
from .target_environment import environment_functions, in_target_environment

DIRECTORY_MARKER = "perfloom job directory"
"""The first line of the file .perfloom: what has it was made by us and may be removed."""
DEFAULT_DIRECTORY = "~/.perfloom"
"""Where jobs have their directories at a target that says nothing about it."""
UNANSWERED_MARKER = "perfloom-begun-without-an-answer"
ID_WAIT_S = 20
"""How long a script waits for another one, or for the job it started, to say its id."""


def job_name(job_id: str, number: int) -> str:
    """What a batch system knows a submission by, beside its own id."""
    return f"perfloom-{job_id}-{number}"


def resolve_directory_script(target: Target, job_id: str) -> str:
    """sh: make the directory of all jobs at the target, and print the full path of the one of this job."""
    return _script(
        environment_functions(target),
        "pl_surround",
        f"pl_base={shell_word(expand_path(target.directory or DEFAULT_DIRECTORY))}",
        'mkdir -p "$pl_base" && cd "$pl_base" || exit 1',
        f"printf '%s/%s\\n' \"$(pwd -P)\" {quote(job_id)}",
        first="umask 077",
    )


def create_directory_script(directory: str) -> str:
    """sh: make the job's directory and those in it. Fails where it is not ours or the disk is full, and says why.

    May be run again.
    """
    return _script(
        f"pl_directory={quote(_full(directory))}",
        f"pl_mark={quote(DIRECTORY_MARKER)}",
        _MAKE,
        first="umask 077",
    )


_MAKE = r"""pl_parent=${pl_directory%/*}
mkdir -p "${pl_parent:-/}" || exit 1
if ! pl_said=$(mkdir "$pl_directory" 2>&1); then
    if [ -L "$pl_directory" ] || [ ! -d "$pl_directory" ]; then
        printf '%s\n' "$pl_said" >&2
        exit 1
    fi
    if [ ! -O "$pl_directory" ] || [ ! -f "$pl_directory/.perfloom" ]; then
        printf '%s is there already and is not of this job. Choose another directory for jobs.\n' "$pl_directory" >&2
        exit 1
    fi
fi
chmod 700 "$pl_directory" && printf '%s\n' "$pl_mark" >"$pl_directory/.perfloom" && mkdir -p "$pl_directory/work" &&
    [ -s "$pl_directory/.perfloom" ]"""


def submit_script(target: Target, spec: JobSpec, job_id: str, directory: str, number: int) -> str:
    """sh: start the submission `number` at most once, however often it is run, and print how it is known there.

    Without a batch system: the script goes on in a session of its own when the connection ends. With one: submits it.
    Raises InvalidRequest for what the batch system cannot be asked for.
    """
    scheduler = scheduler_of(target.scheduler)
    start = [f"pl_directory={quote(_full(directory))}", f"pl_number={number}", f"pl_half={UNANSWERED_MARKER}"]
    start += [f"pl_tries={ID_WAIT_S * 20}", '. "$pl_directory/common.sh" || exit 1']
    if scheduler is None:
        return _script(*start, _START)
    script = ("/bin/sh", f"{directory}/job.sh", directory, str(number))
    argv = scheduler.submit_command(spec, job_name(job_id, number), script, f"{directory}/sub{number}.log")
    return _script(*start, "pl_submit() (", in_target_environment(target, argv), ")", _SUBMIT)


_WAIT = r"""pl_wait_for() {
    while [ ! -s "$1" ] && [ "$pl_tries" -gt 0 ]; do
        pl_tries=$((pl_tries - 1))
        pl_nap
    done
    [ -s "$1" ]
}"""

# job.sh itself sees to it that it runs once: whoever makes sub<k>.ran. So nothing is lost by starting it again.
_START = rf"""{_WAIT}
cd / || exit 1
umask "$pl_umask"
if [ ! -e "$pl_directory/sub$pl_number.ran" ]; then
    pl_own=setsid
    command -v setsid >/dev/null 2>&1 || pl_own=nohup
    PATH=$pl_path $pl_own /bin/sh "$pl_directory/job.sh" "$pl_directory" "$pl_number" </dev/null \
        >>"$pl_directory/sub$pl_number.log" 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- &
fi
if pl_wait_for "$pl_directory/sub$pl_number.id"; then
    cat "$pl_directory/sub$pl_number.id"
elif [ -e "$pl_directory/sub$pl_number.ran" ]; then
    echo "$pl_half"
else
    cat "$pl_directory/sub$pl_number.log" >&2
    exit 1
fi"""

# What was answered is kept, and given again to whoever asks again.
_SUBMIT = rf"""{_WAIT}
pl_answer=$pl_directory/sub$pl_number
cd "$pl_directory" || exit 1
if mkdir "$pl_answer.begun" 2>/dev/null; then
    PATH=$pl_path
    export PATH
    pl_submit </dev/null >"$pl_answer.answer" 2>"$pl_answer.errors"
    echo $? >"$pl_answer.part"
    PATH=$PATH:/usr/bin:/bin
    mv -f "$pl_answer.part" "$pl_answer.status"
fi
if ! pl_wait_for "$pl_answer.status"; then
    echo "$pl_half"
    exit 0
fi
cat "$pl_answer.answer"
cat "$pl_answer.errors" >&2
read -r pl_status <"$pl_answer.status"
exit "${{pl_status:-1}}"
"""


def parse_submit_output(target: Target, stdout: str, stderr: str, status: int | None) -> str:
    """The id of what `submit_script` started: of the batch system, or "pid start-time boot".

    Empty: it was begun, and nobody knows what came of it. Look for it by its name in the batch system, for a while; a
    job without one is lost. Raises InvalidRequest with the reason where it was refused, Unreachable where the batch
    system does not answer (it may have been submitted all the same: look for it by its name; only if it is not there,
    run `reset_submission_script` and start it again), Unavailable where the script itself could not be run.
    """
    if stdout.strip() == UNANSWERED_MARKER:
        return ""
    scheduler = scheduler_of(target.scheduler)
    if scheduler is not None:
        return scheduler.parse_submit_output(stdout, stderr, -1 if status is None else status)
    words = stdout.split()
    if status != 0 or len(words) != 3 or not (words[0].isdigit() and words[1].isdigit()):
        said = " ".join(stderr.split())[-300:]
        raise Unavailable(f"The job could not be started at {target.name}: {said or 'its script says nothing'}")
    return " ".join(words)


def reset_submission_script(directory: str, number: int) -> str:
    """sh: forget that a submission was begun, so that `submit_script` hands it over anew. Only for one that is certain
    not to be there."""
    return _script(f"cd {quote(_full(directory))} || exit 1", f"rm -rf ./sub{number}.begun ./sub{number}.status")


def cancel_script(directory: str, *, gently: bool) -> str:
    """sh: end what `submit_script` started without a batch system: asked to complete its files, or at once and all."""
    return _script(f"cd {quote(_full(directory))} || exit 0", _END, "pl_ask_all" if gently else "pl_kill_all")


_END = r""". ./common.sh && . ./plan.sh || exit 1
pl_find_boot
# Only what began on this host, since its boot, and is still the same process.
pl_ours() {
    pl_leader='' pl_since='' pl_where=''
    { read -r pl_leader pl_since pl_where <"$1"; } 2>/dev/null
    case $pl_leader in '' | *[!0-9]*) return 1 ;; esac
    [ "$pl_where" = "$pl_boot" ]
}
pl_ask_all() {
    for pl_file in ./sub*.id; do
        if pl_ours "$pl_file" && pl_alive "$pl_leader" "$pl_since"; then kill -s TERM "$pl_leader"; fi
    done
}
# All that is marked, and all of the session: a program may have cleared its environment.
pl_kill_all() {
    pl_rounds=0
    while [ "$pl_rounds" -lt 40 ]; do
        pl_rounds=$((pl_rounds + 1))
        pl_some=''
        for pl_file in ./sub*.id; do
            pl_ours "$pl_file" || continue
            # The number of a session is not given to another process while anybody is in it.
            for pl_one in $(cat /proc/[0-9]*/stat 2>/dev/null |
                sed -n "s/^\([0-9]*\) (.*) [A-Ya-z] [0-9-]* [0-9-]* $pl_leader [0-9-]* .*/\1/p"); do
                pl_sessions "$pl_leader" || continue
                kill -s KILL "$pl_one" 2>/dev/null && pl_some=1
            done
        done
        if pl_kill KILL "PERFLOOM_JOB=$pl_id"; then pl_some=1; fi
        [ -n "$pl_some" ] || return 0
        pl_nap
    done
    echo "Some processes of the job could not be ended: $pl_left" >&2
    return 1
}
# Whether a session is this job's: its leader is the one we know, or has ended.
pl_sessions() {
    ! pl_born "$1" || [ "$pl_ticks" = "$pl_since" ]
}"""


def _full(directory: str) -> str:
    if not directory.startswith("/") or directory.rstrip("/").count("/") < 1 or ".." in directory.split("/"):
        raise InvalidRequest(f"{directory[:200]} is no full path of a job's directory.", "directory")
    return directory


def _script(*lines: str, first: str = "") -> str:
    return "\n".join(line for line in (first, *lines) if line) + "\n"
