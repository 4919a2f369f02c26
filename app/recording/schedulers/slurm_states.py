"""Slurm's states of jobs, and its reasons for waiting and ending."""

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
"""Slurm's states and flags, as squeue, scontrol and sacct print them."""

STATE_TEXTS: dict[str, str] = {
    "CONFIGURING": "Its nodes are being configured.",
    "POWER_UP_NODE": "Its nodes are being powered on.",
    "REQUEUED": "Slurm requeued it.",
    "REQUEUE_HOLD": "Slurm requeued and holds it. Release it with scontrol release, or cancel it.",
    "SPECIAL_EXIT": "Slurm requeued and holds it. Release it with scontrol release, or cancel it.",
    "RESV_DEL_HOLD": "It is held, as its reservation was deleted. Cancel it, and submit it again without.",
    "COMPLETING": "It ended. Slurm cleans up.",
    "STAGE_OUT": "It ended. Slurm copies its files.",
    "SUSPENDED": "Slurm suspended it, and resumes it when its nodes are free.",
    "STOPPED": "A signal stopped it. Send SIGCONT to resume it, or cancel it.",
    "CANCELLED": "It was cancelled in Slurm.",
    "TIMEOUT": "It reached its time limit. Request a longer wall time, or record a shorter run.",
    "DEADLINE": "It reached its deadline.",
    "BOOT_FAIL": "One of its nodes could not boot. Submit the job again.",
    "LAUNCH_FAILED": "It could not be started on its node. Submit the job again. If that happens again, tell the "
    "administrators of the cluster.",
    "RECONFIG_FAIL": "One of its nodes could not be reconfigured. Submit the job again.",
    "NODE_FAIL": "One of its nodes failed. Submit the job again.",
    "OUT_OF_MEMORY": "It exceeded its memory limit. Request more, with --mem in the further arguments.",
    "PREEMPTED": "It was preempted by another job. Submit it again, or choose another partition or account.",
    "REVOKED": "Another cluster of the federation started it.",
}
"""Explanations of states that are not obvious."""

NEVER_STARTS = "It will never start like this. Cancel the job and "
WAITS_FOR_JOBS = "It waits for other jobs to end: "

REASONS: ReasonAdvice = tuple(
    (re.compile(rf"\A(?:{pattern})"), advice)
    for pattern, advice in (
        ("None$|NonZeroExitCode|TimeLimit|OutOfMemory", ""),
        ("Priority", "Other jobs have higher priority."),
        ("Resources", "It is next, and waits for nodes or CPUs that are in use."),
        ("JobHeldUser", "It is held. Release it with scontrol release, or cancel it."),
        ("JobHeldAdmin", "It is held by an administrator of the cluster. Ask them, or cancel it."),
        ("BeginTime", "It waits for its start time."),
        (
            "DependencyNeverSatisfied",
            f"{NEVER_STARTS}submit it again without the dependency, which can never be satisfied.",
        ),
        ("Dependency", f"{WAITS_FOR_JOBS}its dependencies."),
        ("Cleaning", "It waits until Slurm has cleaned up after its last attempt."),
        ("Prolog", "Its nodes are being configured."),
        ("PartitionConfig", f"{NEVER_STARTS}request no more nodes, ranks, CPUs or time than the partition allows."),
        (
            "PartitionNodeLimit",
            f"{NEVER_STARTS}request no more nodes than the partition has, or choose another partition.",
        ),
        ("PartitionTimeLimit", f"{NEVER_STARTS}request a shorter wall time, or choose another partition."),
        ("PartitionDown|PartitionInactive", "Its partition is closed now. Wait, or choose another one."),
        ("BadConstraints", f"{NEVER_STARTS}request only what its nodes have (CPUs, memory, features)."),
        (
            "ReqNodeNotAvail|ReservedForMaintenance|Reserved for maintenance",
            "The requested nodes are down, in use or reserved. Wait, request a shorter wall time, or name no nodes.",
        ),
        ("NodeDown|Nodes? required", "Required nodes are down or reserved. Wait, or choose another partition."),
        ("Reservation", "It waits for its reservation to start."),
        ("Licenses", "It waits for licenses that are in use."),
        (
            "InvalidAccount|AccountNotAllowed|AccountingPolicy",
            f"{NEVER_STARTS}choose an account that may use this partition.",
        ),
        ("InvalidQOS|QOSNotAllowed|QOSUsageThreshold", f"{NEVER_STARTS}choose a QOS that this partition allows."),
        (
            r"(QOS|Assoc)(Grp|Group)\w*(Minutes|Wall)",
            "The time of this account is used up, or allocated to other jobs. Wait, choose another account, or "
            "request a shorter wall time.",
        ),
        (
            r"(QOS|Assoc)\w*(Min(?!ute)|PerJob|PerNode)",
            f"{NEVER_STARTS}request no more nodes, CPUs, memory or time than this account or QOS allows one job.",
        ),
        (r"(QOS|Assoc)(Grp|Group)", f"{WAITS_FOR_JOBS}jobs of its account use the account's whole limit."),
        ("QOS|Assoc|MaxJobs", f"{WAITS_FOR_JOBS}your other jobs use your whole limit."),
        ("JobArrayTaskLimit", f"{WAITS_FOR_JOBS}its array may not run more at once."),
        ("DeadLine", f"{NEVER_STARTS}submit it again: its deadline has passed."),
        ("FrontEndDown", "The cluster's front end is down. Wait."),
        (
            "JobLaunchFailure",
            "It could not be started on its node, or was killed there. Check whether its directory is writable.",
        ),
        ("launch failed|.*requeued held", "It could not be started, and is held. Cancel it, and submit it again."),
        ("SystemFailure", "Slurm failed. Submit the job again."),
        ("BurstBuffer|StageIn", "Its files are being copied."),
    )
)
"""(prefix of a reason, explanation for users); the first match counts."""

HELD_REASONS = re.compile("JobHeld|launch failed|.*requeued held")
"""Reasons of a job that is held."""


def readable_reason(reason: str) -> str:
    """A reason in readable form: squeue prints _ for spaces in long ones."""
    return reason.strip().strip("()").replace("_", " ")


def explain_reason(reason: str) -> str:
    """The explanation of a reason for waiting or ending, with Slurm's own term. Empty if there is nothing to
    explain."""
    return explain_words("Slurm", readable_reason(reason), REASONS)
