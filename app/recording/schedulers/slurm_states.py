"""What Slurm's words mean: states of jobs, why they wait, why they ended."""

import re

from ...domain.targets import BatchState
from .common import ReasonAdvice, explain_words

STATES: dict[str, BatchState] = {
    "PENDING": BatchState.PENDING,
    "CONFIGURING": BatchState.PENDING,
    "POWER_UP_NODE": BatchState.PENDING,
    "REQUEUED": BatchState.PENDING,
    "REQUEUE_FED": BatchState.PENDING,
    "REQUEUE_HOLD": BatchState.HELD,
    "RESV_DEL_HOLD": BatchState.HELD,
    "SPECIAL_EXIT": BatchState.HELD,
    "RUNNING": BatchState.RUNNING,
    "COMPLETING": BatchState.RUNNING,
    "RESIZING": BatchState.RUNNING,
    "SIGNALING": BatchState.RUNNING,
    "STAGE_OUT": BatchState.RUNNING,
    "UPDATE_DB": BatchState.RUNNING,
    "SUSPENDED": BatchState.SUSPENDED,
    "STOPPED": BatchState.SUSPENDED,
    "COMPLETED": BatchState.DONE,
    "CANCELLED": BatchState.CANCELLED,
    "TIMEOUT": BatchState.TIME_LIMIT,
    "DEADLINE": BatchState.TIME_LIMIT,
    "FAILED": BatchState.FAILED,
    "BOOT_FAIL": BatchState.FAILED,
    "LAUNCH_FAILED": BatchState.FAILED,
    "RECONFIG_FAIL": BatchState.FAILED,
    "NODE_FAIL": BatchState.FAILED,
    "OUT_OF_MEMORY": BatchState.FAILED,
    "PREEMPTED": BatchState.FAILED,
    "REVOKED": BatchState.UNKNOWN,
}
"""Slurm's states, with their flags, as squeue, scontrol and sacct write them."""

STATE_TEXTS: dict[str, str] = {
    "CONFIGURING": "Its nodes are being made ready.",
    "POWER_UP_NODE": "Its nodes are being switched on.",
    "REQUEUED": "Slurm put it back into the queue.",
    "REQUEUE_HOLD": "Slurm put it back and holds it: let it go with scontrol release, or cancel it.",
    "SPECIAL_EXIT": "Slurm put it back and holds it: let it go with scontrol release, or cancel it.",
    "RESV_DEL_HOLD": "The reservation it was for is gone, and it is held: cancel it and start it again without.",
    "COMPLETING": "It has ended; Slurm cleans up after it.",
    "STAGE_OUT": "It has ended; Slurm copies its files.",
    "SUSPENDED": "Slurm has suspended it; it goes on by itself once its nodes are free again.",
    "STOPPED": "It was stopped by a signal: send it CONT to let it go on, or cancel it.",
    "CANCELLED": "It was cancelled in Slurm.",
    "TIMEOUT": "It was ended at its time limit. Ask for a longer wall time, or record a shorter run.",
    "DEADLINE": "It was ended at its deadline.",
    "BOOT_FAIL": "A node could not be started for it. Start the job again.",
    "LAUNCH_FAILED": "It could not be started on its node. Start the job again; if that happens again, tell those who "
    "run the cluster.",
    "RECONFIG_FAIL": "A node could not be set up for it. Start the job again.",
    "NODE_FAIL": "A node it ran on failed. Start the job again.",
    "OUT_OF_MEMORY": "It was ended because it used more memory than it may. Ask for more, with --mem in the further "
    "arguments.",
    "PREEMPTED": "It was ended to make room for another job. Start it again, or choose another partition or account.",
    "REVOKED": "Another cluster of the federation has started it.",
}
"""What a state means, where that is not plain."""

NEVER_STARTS = "It will never start as it is: cancel the job and "
WAITS_FOR_JOBS = "It waits for other jobs to end: "

REASONS: ReasonAdvice = tuple(
    (re.compile(rf"\A(?:{pattern})"), advice)
    for pattern, advice in (
        ("None$|NonZeroExitCode|TimeLimit|OutOfMemory", ""),
        ("Priority", "Others are before it in the queue."),
        ("Resources", "It is next, and waits for nodes or CPUs that are in use."),
        ("JobHeldUser", "It is held: let it go with scontrol release, or cancel it."),
        ("JobHeldAdmin", "It is held by those who run the cluster: ask them, or cancel it."),
        ("BeginTime", "It waits for the time it may begin at."),
        ("DependencyNeverSatisfied", f"{NEVER_STARTS}start it again without the dependency, which can never be met."),
        ("Dependency", f"{WAITS_FOR_JOBS}those it depends on."),
        ("Cleaning", "It waits until Slurm has cleaned up after its last try."),
        ("Prolog", "Its nodes are being made ready."),
        ("PartitionConfig", f"{NEVER_STARTS}ask for no more nodes, ranks, CPUs or time than the partition allows."),
        (
            "PartitionNodeLimit",
            f"{NEVER_STARTS}ask for no more nodes than the partition has, or choose another partition.",
        ),
        ("PartitionTimeLimit", f"{NEVER_STARTS}ask for a shorter wall time, or choose another partition."),
        ("PartitionDown|PartitionInactive", "Its partition is closed at present. Wait, or choose another one."),
        ("BadConstraints", f"{NEVER_STARTS}ask for what the nodes there have (CPUs, memory, features)."),
        (
            "ReqNodeNotAvail|ReservedForMaintenance|Reserved for maintenance",
            "The nodes it asks for are down, in use or reserved. Wait, ask for a shorter wall time, or name no nodes.",
        ),
        ("NodeDown|Nodes? required", "Nodes that it needs are down or reserved. Wait, or choose another partition."),
        ("Reservation", "It waits for its reservation to begin."),
        ("Licenses", "It waits for licenses that are in use."),
        (
            "InvalidAccount|AccountNotAllowed|AccountingPolicy",
            f"{NEVER_STARTS}choose an account that may use this partition.",
        ),
        ("InvalidQOS|QOSNotAllowed|QOSUsageThreshold", f"{NEVER_STARTS}choose a QOS and a partition that go together."),
        (
            r"(QOS|Assoc)(Grp|Group)\w*(Minutes|Wall)",
            "The time granted to this account is used up or promised to other jobs. Wait, choose another account, or "
            "ask for a shorter wall time.",
        ),
        (
            r"(QOS|Assoc)\w*(Min(?!ute)|PerJob|PerNode)",
            f"{NEVER_STARTS}ask for no more nodes, CPUs, memory or time than this account or QOS gives one job.",
        ),
        (r"(QOS|Assoc)(Grp|Group)", f"{WAITS_FOR_JOBS}those of its account use all that the account may have at once."),
        ("QOS|Assoc|MaxJobs", f"{WAITS_FOR_JOBS}your own use all that you may have at once."),
        ("JobArrayTaskLimit", f"{WAITS_FOR_JOBS}no more of them may run at once."),
        ("DeadLine", f"{NEVER_STARTS}start it again: its deadline is over."),
        ("FrontEndDown", "The cluster's front end is down. Wait."),
        (
            "JobLaunchFailure",
            "It could not be started on its node, or was killed there: see whether its directory can be written.",
        ),
        ("launch failed|.*requeued held", "It could not be started, and is held: cancel it and start it again."),
        ("SystemFailure", "Slurm itself failed. Start the job again."),
        ("BurstBuffer|StageIn", "Its files are being copied."),
    )
)
"""How a reason begins → what it means for a person; the first that fits counts."""

HELD_REASONS = re.compile("JobHeld|launch failed|.*requeued held")
"""Reasons of a job that waits until somebody lets it go."""


def readable_reason(reason: str) -> str:
    """A reason as squeue writes it, readable: it puts _ for spaces in the longer ones."""
    return reason.strip().strip("()").replace("_", " ")


def explain_reason(reason: str) -> str:
    """What a reason for waiting or ending means, with Slurm's own word. Empty where there is nothing to say."""
    return explain_words("Slurm", readable_reason(reason), REASONS)
