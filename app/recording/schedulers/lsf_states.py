"""LSF's states of jobs, and its reasons for waiting and ending."""

import re

from ...domain.targets import BatchState
from .common import ReasonAdvice, explain_words

STATES: dict[str, BatchState] = {
    "PEND": BatchState.PENDING,
    "PROV": BatchState.PENDING,
    "WAIT": BatchState.PENDING,
    "PSUSP": BatchState.HELD,
    "RUN": BatchState.RUNNING,
    "USUSP": BatchState.SUSPENDED,
    "SSUSP": BatchState.SUSPENDED,
    "DONE": BatchState.DONE,
    "PDONE": BatchState.DONE,
    "POST_DONE": BatchState.DONE,
    "EXIT": BatchState.FAILED,
    "PERR": BatchState.DONE,
    "POST_ERR": BatchState.DONE,
    "UNKWN": BatchState.UNKNOWN,
    "ZOMBI": BatchState.UNKNOWN,
}
"""LSF's states. EXIT has many reasons, of which some are not failures."""

STATE_TEXTS: dict[str, str] = {
    "PROV": "Its host is being powered on.",
    "WAIT": "It waits for other jobs of its chunk.",
    "PSUSP": "It was suspended before it started. Resume it with bresume, or cancel it.",
    "USUSP": "A user suspended it. Resume it with bresume, or cancel it.",
    "SSUSP": "LSF suspended it because its host is too busy or its queue's run window closed. LSF resumes it.",
    "UNKWN": "LSF lost contact with its host. It may still run there. Wait, or cancel it.",
    "ZOMBI": "It was killed while LSF could not reach its host. It ends when the host is back.",
    "PERR": "It succeeded, but the queue's post-execution command failed.",
    "POST_ERR": "It succeeded, but the queue's post-execution command failed.",
}
"""Explanations of states that are not obvious."""

END_REASONS: dict[str, tuple[BatchState, str]] = {
    "TERM_OWNER": (BatchState.CANCELLED, "It was cancelled in LSF by its owner."),
    "TERM_FORCE_OWNER": (BatchState.CANCELLED, "It was cancelled in LSF by its owner."),
    "TERM_ADMIN": (BatchState.CANCELLED, "It was cancelled by an administrator of the cluster."),
    "TERM_FORCE_ADMIN": (BatchState.CANCELLED, "It was cancelled by an administrator of the cluster."),
    "TERM_BUCKET_KILL": (BatchState.CANCELLED, "It was cancelled in LSF, with many other jobs."),
    "TERM_RUNLIMIT": (
        BatchState.TIME_LIMIT,
        "It reached its time limit. Request a longer wall time, or record a shorter run.",
    ),
    "TERM_DEADLINE": (BatchState.TIME_LIMIT, "It reached its deadline."),
    "TERM_WINDOW": (BatchState.TIME_LIMIT, "LSF ended it because its queue's run window closed."),
    "TERM_CPULIMIT": (BatchState.FAILED, "It used more CPU time than its queue allows."),
    "TERM_MEMLIMIT": (
        BatchState.FAILED,
        "It exceeded its memory limit. Request more, with -M in the further arguments.",
    ),
    "TERM_SWAP": (BatchState.FAILED, "It exceeded its swap space limit."),
    "TERM_PROCESSLIMIT": (BatchState.FAILED, "It had more processes than its queue allows."),
    "TERM_THREADLIMIT": (BatchState.FAILED, "It had more threads than its queue allows."),
    "TERM_PREEMPT": (BatchState.FAILED, "It was preempted by another job. Submit it again."),
    "TERM_LOAD": (BatchState.FAILED, "LSF ended it because its host was too busy. Submit it again."),
    "TERM_REQUEUE_OWNER": (BatchState.CANCELLED, "Its owner requeued it, but a recording runs only once."),
    "TERM_REQUEUE_ADMIN": (BatchState.FAILED, "It was requeued, but a recording runs only once."),
    "TERM_CWD_NOTEXIST": (BatchState.FAILED, "Its working directory does not exist on its host."),
    "TERM_EXTERNAL_SIGNAL": (BatchState.FAILED, "A signal that did not come from LSF ended it."),
    "TERM_ZOMBIE": (BatchState.FAILED, "It ended while LSF could not reach its host. Submit the job again."),
    "TERM_REMOVE_HUNG_JOB": (BatchState.FAILED, "LSF could no longer reach its host, and removed it."),
    "TERM_PRE_EXEC_FAIL": (BatchState.FAILED, "The queue's pre-execution command failed."),
    "TERM_ORPHAN_SYSTEM": (BatchState.FAILED, "It waited for a job that can never finish."),
}
"""Keywords of reasons for the end of a job."""

NEVER_STARTS = "It cannot start like this. Cancel the job and "

REASONS: ReasonAdvice = tuple(
    (re.compile(pattern, re.I), advice)
    for pattern, advice in (
        (r"New job is waiting for scheduling|Waiting for re-?scheduling", "LSF has not scheduled it yet."),
        (
            r"no suitable host|not enough hosts|requested slots exceed|more (slots|processors) than",
            f"{NEVER_STARTS}request fewer ranks or CPUs, or other resources. Or wait until more hosts are up.",
        ),
        (r"(run|job).{0,20}limit.{0,40}(exceed|cannot be met|conflict)", f"{NEVER_STARTS}request a shorter wall time."),
        (r"specified start time", "It waits for its start time."),
        (r"dependency.{0,40}(invalid|never)", f"{NEVER_STARTS}submit it again without the dependency."),
        (r"dependency", "It waits for other jobs that it depends on."),
        (r"suspended by (the )?(user|LSF admin|administrator|owner)|suspended .*while pending", STATE_TEXTS["PSUSP"]),
        (
            r"queue is inactivated|queue has been .*inactivated|queue.{0,20}clos",
            "Its queue is closed now. Wait, or choose another one.",
        ),
        (
            r"user has reached|user's .*limit|Job slot limit.*user|limit.{0,20}user",
            "It waits for your other jobs, which use your whole limit.",
        ),
        (r"queue.{0,40}limit|limit.{0,40}queue", "Its queue is full. It waits for other jobs to end."),
        (r"project.{0,40}limit|limit.{0,40}project", "Its project uses its whole limit."),
        (
            r"Not enough (job slot|processor|slot)|slots? .*in use|Job slot limit reached",
            "It waits for CPUs that are in use.",
        ),
        (
            r"resource requirements not satisfied|requirements? .*reserve resource",
            "No host currently has the requested resources (-R, CPUs on one host).",
        ),
        (r"exclusive", "It waits for a host for exclusive use."),
        (r"higher priority|fairshare|Queue's priority", "Other jobs have higher priority."),
        (
            r"Closed by LSF admin|Load information unavailable|unreachable|unavail",
            "Hosts that could run it are down or closed.",
        ),
        (r"load|threshold|busy", "The hosts that could run it are busy."),
    )
)
"""(part of a reason for waiting, explanation for users); the first match counts."""


def explain_reason(reason: str) -> str:
    """The explanation of a reason for waiting, with LSF's text."""
    words = " ".join(reason.split()).strip(" ;")
    return explain_words("LSF", words, REASONS)
