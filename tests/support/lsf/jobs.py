"""Jobs of the simulated LSF: how one is started, signaled and watched."""

import contextlib
import os
import pwd
import signal
import socket
import time
from pathlib import Path

HOST = socket.gethostname().partition(".")[0]
WAITS = ("PEND", "PSUSP")
RUNS = ("RUN", "USUSP", "SSUSP")

# As in LSF, the shell around the command ignores these signals, and returns the status of the command.
JOB_FILE = """\
#!/bin/sh
$LSB_TRAPSIGS
# LSBATCH: User input
{command}
ExitStat=$?
wait
# LSBATCH: End user input
true
exit `expr $? "|" $ExitStat`
"""
EXIT_REASONS = {
    "TERM_OWNER": "TERM_OWNER: job killed by owner",
    "TERM_ADMIN": "TERM_ADMIN: job killed by root or LSF administrator",
    "TERM_RUNLIMIT": "TERM_RUNLIMIT: job killed after reaching LSF run time limit",
    "TERM_MEMLIMIT": "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit",
}


class Job:
    """One job. `stat` is LSF's state of it."""

    def __init__(self, number, user, options, command, cwd, environment):
        self.number, self.user, self.options, self.command = number, user, options, command
        self.cwd, self.environment = cwd, environment
        self.stat, self.pid, self.exit_code, self.exit_reason = "PEND", None, None, ""
        self.submitted, self.started, self.ended, self.starting = time.time(), None, None, 0.0
        self.plan = []
        """The next actions on it: (when, signal, reason for which it then ended)."""
        self.cause = ""

    @property
    def name(self):
        return self.options.get("J") or self.command

    @property
    def queue(self):
        return self.options["q"]

    @property
    def slots(self):
        return int(self.options.get("n", "1").partition(",")[0])

    @property
    def minutes(self):
        """The limit of -W, null for none."""
        text = self.options.get("W", "").partition("/")[0]
        if not text:
            return None
        hours, _, minutes = text.rpartition(":")
        return int(hours or 0) * 60 + int(minutes)

    def start(self, folder, settings):
        """Run the command in a new session, as the user who submitted it."""
        spool = folder / "jobs" / str(self.number)
        spool.mkdir()
        (spool / "script").write_text(JOB_FILE.format(command=self.command))
        (spool / "hosts").write_text(f"{HOST}\n" * self.slots)
        account = pwd.getpwuid(self.user)
        os.chown(spool, self.user, account.pw_gid)
        environment = dict(self.environment)
        environment.update(
            LSB_JOBID=str(self.number),
            LSB_BATCH_JID=str(self.number),
            LSB_JOBINDEX="0",
            LSB_JOBNAME=self.name,
            LSB_QUEUE=self.queue,
            LSB_HOSTS=" ".join([HOST] * self.slots),
            LSB_MCPU_HOSTS=f"{HOST} {self.slots}",
            LSB_DJOB_HOSTFILE=str(spool / "hosts"),
            LSB_DJOB_NUMPROC=str(self.slots),
            LSB_JOBFILENAME=str(spool / "script"),
            LSB_OUTPUTFILE=self.options.get("o", ""),
            LSB_TRAPSIGS="trap # 15 10 12 2 1",
            LSB_SUB_HOST=HOST,
            LS_SUBCWD=self.cwd,
            LSF_BINDIR=str(folder / "bin"),
        )
        self.pid = os.fork()
        if self.pid == 0:
            self._become(account, spool, environment)
        self.stat, self.started = "RUN", time.time()
        if self.minutes is not None:
            limit = self.started + self.minutes * settings["minute"]
            killed = limit + settings["ten_minutes"]
            self.plan = [(limit, signal.SIGUSR2, "TERM_RUNLIMIT"), *self.killing(killed, "TERM_RUNLIMIT", settings)]

    def _become(self, account, spool, environment):
        """The child's part of `start`; never returns."""
        try:
            os.setsid()
            output = os.open(spool / "output", os.O_WRONLY | os.O_CREAT, 0o600)
            if os.geteuid() == 0:
                os.initgroups(account.pw_name, account.pw_gid)
                os.setgid(account.pw_gid)
                os.setuid(self.user)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.closerange(3, 256)
            for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            try:
                os.chdir(self.cwd)
            except OSError:
                os.chdir("/tmp")
            os.execve("/bin/sh", ["/bin/sh", str(spool / "script")], environment)
        finally:
            os._exit(127)

    @staticmethod
    def killing(begin, cause, settings):
        """INT, TERM and KILL, ten seconds apart."""
        pause = settings["ten_seconds"]
        signals = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
        return [(begin + place * pause, number, cause) for place, number in enumerate(signals)]

    def processes(self):
        """All processes of the job: those of its session, and all processes that they started."""
        parents, mine = {}, set()
        for entry in os.scandir("/proc"):
            with contextlib.suppress(OSError, ValueError):
                words = Path(entry.path, "stat").read_bytes().rpartition(b")")[2].split()
                parents[int(entry.name)] = int(words[1])
                if int(words[3]) == self.pid:
                    mine.add(int(entry.name))
        grown = True
        while grown:
            more = {pid for pid, parent in parents.items() if parent in mine} - mine
            mine |= more
            grown = bool(more)
        return mine

    def signal(self, number):
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def act(self, now):
        """Perform the actions that are due."""
        while self.plan and self.plan[0][0] <= now:
            _, number, self.cause = self.plan.pop(0)
            self.signal(number)

    def end(self, wait_status, folder):
        """Its shell has ended."""
        self.ended, self.plan = time.time(), []
        code = os.waitstatus_to_exitcode(wait_status)
        self.finish(128 - code if code < 0 else code)
        self.report(folder)

    def finish(self, code):
        self.ended = self.ended or time.time()
        self.exit_code = code
        self.stat = "EXIT" if code else "DONE"
        self.exit_reason = EXIT_REASONS.get(self.cause, "") if code else ""

    def report(self, folder):
        """Write the file of -o: LSF's report, followed by the job's output."""
        target = self.options.get("o") or self.options.get("oo")
        if not target:
            return
        ending = "Successfully completed." if not self.exit_code else f"Exited with exit code {self.exit_code}."
        reason = f"{self.exit_reason}.\n" if self.exit_reason else ""
        text = (
            f"Sender: LSF System <lsfadmin@{HOST}>\n"
            f"Subject: Job {self.number}: <{self.name}> in cluster <double> {'Exited' if self.exit_code else 'Done'}\n\n"
            f"# LSBATCH: User input\n{self.command}\n{'-' * 60}\n\n{reason}{ending}\n\n"
            "The output (if any) follows:\n\n"
        ).encode()
        printed = (folder / "jobs" / str(self.number) / "output").read_bytes()
        path = os.path.join(self.cwd, target.replace("%J", str(self.number)).replace("%I", "0"))
        child = os.fork()
        if child == 0:
            with contextlib.suppress(OSError):
                if os.geteuid() == 0:
                    os.setgid(pwd.getpwuid(self.user).pw_gid)
                    os.setuid(self.user)
                with open(path, "ab") as file:
                    file.write(text + printed)
            os._exit(0)
        os.waitpid(child, 0)
