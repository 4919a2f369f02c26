"""What LSF's words mean: states of jobs, why they wait, why they ended."""

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
"""LSF's states. EXIT has many reasons, of which some are no failures."""

STATE_TEXTS: dict[str, str] = {
    "PROV": "Its host is being woken up.",
    "WAIT": "It waits for other jobs of its chunk.",
    "PSUSP": "It was suspended before it began: let it go with bresume, or cancel it.",
    "USUSP": "A person suspended it: let it go on with bresume, or cancel it.",
    "SSUSP": "LSF has suspended it because its host is too busy or its queue's hours are over; it goes on by itself.",
    "UNKWN": "LSF has lost contact with the host it runs on. It may still run there: wait, or cancel it.",
    "ZOMBI": "It was killed while LSF could not reach its host, and ends when that host is back.",
    "PERR": "It ended well; what the queue runs after it failed.",
    "POST_ERR": "It ended well; what the queue runs after it failed.",
}
"""What a state means, where that is not plain."""

END_REASONS: dict[str, tuple[BatchState, str]] = {
    "TERM_OWNER": (BatchState.CANCELLED, "It was cancelled in LSF by its owner."),
    "TERM_FORCE_OWNER": (BatchState.CANCELLED, "It was cancelled in LSF by its owner."),
    "TERM_ADMIN": (BatchState.CANCELLED, "It was cancelled by those who run the cluster."),
    "TERM_FORCE_ADMIN": (BatchState.CANCELLED, "It was cancelled by those who run the cluster."),
    "TERM_BUCKET_KILL": (BatchState.CANCELLED, "It was cancelled in LSF, with many others."),
    "TERM_RUNLIMIT": (
        BatchState.TIME_LIMIT,
        "It was ended at its time limit. Ask for a longer wall time, or record a shorter run.",
    ),
    "TERM_DEADLINE": (BatchState.TIME_LIMIT, "It was ended at its deadline."),
    "TERM_WINDOW": (BatchState.TIME_LIMIT, "It was ended because its queue's hours are over."),
    "TERM_CPULIMIT": (BatchState.FAILED, "It was ended because it used more CPU time than its queue allows."),
    "TERM_MEMLIMIT": (
        BatchState.FAILED,
        "It was ended because it used more memory than it may. Ask for more, with -M in the further arguments.",
    ),
    "TERM_SWAP": (BatchState.FAILED, "It was ended because it used more swap space than it may."),
    "TERM_PROCESSLIMIT": (BatchState.FAILED, "It was ended because it had more processes than its queue allows."),
    "TERM_THREADLIMIT": (BatchState.FAILED, "It was ended because it had more threads than its queue allows."),
    "TERM_PREEMPT": (BatchState.FAILED, "It was ended to make room for another job. Start it again."),
    "TERM_LOAD": (BatchState.FAILED, "It was ended because its host was too busy. Start it again."),
    "TERM_REQUEUE_OWNER": (BatchState.CANCELLED, "Its owner put it back into the queue; a recording runs only once."),
    "TERM_REQUEUE_ADMIN": (BatchState.FAILED, "It was put back into the queue, and a recording runs only once."),
    "TERM_CWD_NOTEXIST": (BatchState.FAILED, "The directory it was to run in does not exist on its host."),
    "TERM_EXTERNAL_SIGNAL": (BatchState.FAILED, "It was ended by a signal that did not come from LSF."),
    "TERM_ZOMBIE": (BatchState.FAILED, "It ended while LSF could not reach its host. Start the job again."),
    "TERM_REMOVE_HUNG_JOB": (BatchState.FAILED, "LSF could not reach its host any more and gave it up."),
    "TERM_PRE_EXEC_FAIL": (BatchState.FAILED, "What its queue runs before a job failed."),
    "TERM_ORPHAN_SYSTEM": (BatchState.FAILED, "It waited for a job that can never be done."),
}
"""Keywords of why a job ended."""

NEVER_STARTS = "It cannot start as it is: cancel the job and "

REASONS: ReasonAdvice = tuple(
    (re.compile(pattern, re.I), advice)
    for pattern, advice in (
        (r"New job is waiting for scheduling|Waiting for re-?scheduling", "LSF has not looked at it yet."),
        (
            r"no suitable host|not enough hosts|requested slots exceed|more (slots|processors) than",
            f"{NEVER_STARTS}ask for fewer ranks or CPUs, or other resources. Or wait until more hosts are up.",
        ),
        (r"(run|job).{0,20}limit.{0,40}(exceed|cannot be met|conflict)", f"{NEVER_STARTS}ask for a shorter wall time."),
        (r"specified start time", "It waits for the time it may begin at."),
        (r"dependency.{0,40}(invalid|never)", f"{NEVER_STARTS}start it again without the dependency."),
        (r"dependency", "It waits for other jobs that it depends on."),
        (r"suspended by (the )?(user|LSF admin|administrator|owner)|suspended .*while pending", STATE_TEXTS["PSUSP"]),
        (
            r"queue is inactivated|queue has been .*inactivated|queue.{0,20}clos",
            "Its queue is not open now. Wait, or choose another one.",
        ),
        (
            r"user has reached|user's .*limit|Job slot limit.*user|limit.{0,20}user",
            "It waits for other jobs of yours: they use all that you may have at once.",
        ),
        (r"queue.{0,40}limit|limit.{0,40}queue", "Its queue is full: it waits for other jobs to end."),
        (r"project.{0,40}limit|limit.{0,40}project", "Its project uses all that it may have at once."),
        (
            r"Not enough (job slot|processor|slot)|slots? .*in use|Job slot limit reached",
            "It waits for CPUs that are in use.",
        ),
        (
            r"resource requirements not satisfied|requirements? .*reserve resource",
            "No host has at present what it asks for (-R, CPUs on one host).",
        ),
        (r"exclusive", "It waits for a host that it can have alone."),
        (r"higher priority|fairshare|Queue's priority", "Others are before it in the queue."),
        (
            r"Closed by LSF admin|Load information unavailable|unreachable|unavail",
            "Hosts that could run it are down or closed.",
        ),
        (r"load|threshold|busy", "The hosts that could run it are busy."),
    )
)
"""What stands in a reason for waiting → what it means for a person; the first that fits counts."""


def explain_reason(reason: str) -> str:
    """What a reason for waiting means, with LSF's own words."""
    words = " ".join(reason.split()).strip(" ;")
    return explain_words("LSF", words, REASONS)
