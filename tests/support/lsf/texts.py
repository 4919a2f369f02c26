"""The output of the programs of the simulated LSF."""

import json
import pwd
import re
import textwrap
import time

from jobs import HOST, WAITS

FIELDS = {
    "jobid": lambda job, view: str(job.number),
    "stat": lambda job, view: view.stat(job),
    "user": lambda job, view: pwd.getpwuid(job.user).pw_name,
    "queue": lambda job, view: job.queue,
    "job_name": lambda job, view: job.name,
    "proj_name": lambda job, view: job.options.get("P", "default"),
    "from_host": lambda job, view: HOST,
    "exec_host": lambda job, view: hosts(job),
    "exit_code": lambda job, view: str(job.exit_code) if job.exit_code else "",
    "exit_reason": lambda job, view: job.exit_reason,
    "pend_reason": lambda job, view: view.pend_reason(job),
    "slots": lambda job, view: str(job.slots),
}
WIDTHS = {"jobid": 7, "stat": 5, "user": 7, "queue": 10, "job_name": 10, "exec_host": 11, "from_host": 11}
SINCE_10_1 = ("pend_reason",)


def hosts(job):
    """`host` or `4*host`, empty while it waits."""
    if job.started is None:
        return ""
    return f"{job.slots}*{HOST}" if job.slots > 1 else HOST


def customised(jobs, lost, fields, delimiter, view, *, as_json, header):
    """bjobs -o: as JSON, with a delimiter, or in columns."""
    if as_json:
        records = [{name.upper(): FIELDS[name](job, view) for name in fields} for job in jobs]
        records += [{"JOBID": word, "ERROR": f"Job <{word}> is not found"} for word in lost]
        shown = json.dumps({"COMMAND": "bjobs", "JOBS": len(records), "RECORDS": records}, indent=2)
        return shown.replace('": ', '":') + "\n"
    rows = [[FIELDS[name](job, view) or "-" for name in fields] for job in jobs]
    if header:
        rows.insert(0, [name.upper() for name in fields])
    if delimiter:
        return "".join(delimiter.join(row) + "\n" for row in rows)
    return "".join(
        " ".join(value.ljust(WIDTHS.get(name, 12)) for value, name in zip(row, fields, strict=True)).rstrip() + "\n"
        for row in rows
    )


def table(jobs, view, *, header):
    """bjobs without -o."""
    rows = ["JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME"] if header else []
    for job in jobs:
        user, name = pwd.getpwuid(job.user).pw_name[:7], job.name[-10:]
        rows.append(
            f"{job.number:<7} {user:<7} {view.stat(job):<5} {job.queue[:10]:<10} {HOST[:11]:<11} "
            f"{hosts(job)[:11]:<11} {name:<10} {time.strftime('%b %e %H:%M', time.localtime(job.submitted))}"
        )
    return "".join(f"{row}\n" for row in rows)


def history(job, view):
    """bhist -l, with lines broken after 80 characters at any position."""

    def event(when, text):
        return broken(f"{time.strftime('%a %b %e %H:%M:%S', time.localtime(when))}: {text};")

    user = pwd.getpwuid(job.user).pw_name
    lines = [
        broken(f"Job <{job.number}>, Job Name <{job.name}>, User <{user}>, Project <default>, Command <{job.command}>")
    ]
    lines.append(event(job.submitted, f"Submitted from host <{HOST}>, to Queue <{job.queue}>, CWD <{job.cwd}>"))
    if job.started is not None:
        lines.append(
            event(job.started, f"Dispatched {job.slots} Task(s) on Host(s) <{HOST}>, Allocated {job.slots} Slot(s)")
        )
        lines.append(event(job.started, f"Starting (Pid {job.pid})"))
    if job.stat == "DONE":
        lines.append(event(job.ended, "Done successfully. The CPU time used is 0.1 seconds"))
        lines.append(event(job.ended, "Post job process done successfully"))
    if job.stat == "EXIT":
        ending = f"Exited with exit code {job.exit_code}" if job.started else "Exited"
        lines.append(event(job.ended, f"{ending}. The CPU time used is 0.1 seconds"))
        if job.exit_reason:
            lines.append(event(job.ended, f"Completed <exit>; {job.exit_reason}"))
    spent = "  PEND     PSUSP    RUN      USUSP    SSUSP    UNKWN    TOTAL\n  0        0        1        0        0        0        1"
    lines.append(f"\nSummary of time in seconds spent in various states by  {time.ctime()}\n{spent}")
    return "\n" + "\n".join(lines) + "\n\n"


def broken(text):
    """In lines of 80, all but the first indented."""
    text = re.sub(r"\s+", " ", text)
    rest = textwrap.wrap(text[80:], 58, drop_whitespace=False, break_on_hyphens=False) if len(text) > 80 else []
    return "\n".join([text[:80], *(" " * 21 + line for line in rest)])


def queues(names, jobs, view):
    """bqueues."""
    rows = ["QUEUE_NAME      PRIO STATUS          MAX JL/U JL/P JL/H NJOBS  PEND   RUN  SUSP "]
    for name in names:
        mine = [job for job in jobs if job.queue == name and job.ended is None]
        waiting = sum(job.slots for job in mine if job.stat in WAITS)
        status = "Closed:Inact" if name == "closed" else "Open:Active"
        rows.append(
            f"{name:<15} {30:>3}  {status:<14}    -    -    -    - {sum(j.slots for j in mine):>5} {waiting:>5} "
            f"{sum(job.slots for job in mine) - waiting:>5} {0:>5}"
        )
    return "".join(f"{row}\n" for row in rows)


__all__ = ["FIELDS", "SINCE_10_1", "customised", "history", "queues", "table"]
