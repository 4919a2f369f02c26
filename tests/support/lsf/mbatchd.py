"""A simulated LSF for tests: one host, three queues, jobs that really run.

    python3 -I -S mbatchd.py FOLDER

Its programs (client.py, by their names) ask it over the socket in FOLDER. Its behavior is read again at each request
from FOLDER/control.json: see SETTINGS.
"""

import contextlib
import json
import os
import re
import select
import shlex
import signal
import socket
import struct
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import texts
from jobs import HOST, RUNS, WAITS, Job

SETTINGS = {
    "delay": 0.0,  # seconds that a job waits at least
    "slots": 16,  # of the host
    "minute": 60.0,  # seconds that a minute of -W lasts
    "ten_minutes": 600.0,  # from USR2 at the run limit to INT
    "ten_seconds": 10.0,  # between INT, TERM and KILL
    "clean_period": 3600.0,  # seconds after which bjobs forgets what has ended
    "noise": 0,  # lines of "Cannot connect to LSF. Please wait ..." before every answer
    "down": False,  # no answer but that
    "refuse": "",  # message of bsub instead of accepting a job
    "lose_answers": False,  # bsub accepts the job, and its answer is lost
    "stat": {},  # job id or name, or "*": a state to show instead of the true one
    "exit_reason": {},  # the same for why it ended
    "pend_reason": "New job is waiting for scheduling;",
    "version": "10.1",  # 9.1: bjobs has no -json and no pend_reason
}
QUEUES = ("normal", "short", "closed")
WITHOUT_VALUE = (
    *("ar", "x", "rn", "r", "K", "H", "N", "Ne", "B", "I", "Ip", "Is", "ul", "hl", "tty", "ti", "XF", "datachk"),
    *("h", "V"),
)
WITH_VALUE = (
    *("J", "Jd", "o", "oo", "e", "eo", "q", "P", "W", "We", "n", "R", "M", "v", "cwd", "env", "m", "g"),
    *("G", "app", "b", "t", "L", "sla", "U", "w", "c", "C", "D", "F", "S", "T", "p"),
    *("sp", "i", "u", "E", "Ep", "f", "gpu", "a", "outdir", "k", "s", "Q", "Lp", "mig", "wa", "wt", "ext", "rnc"),
    *("hostfile", "network", "clusters", "freq", "data", "stage", "eptl", "ptl", "rcacct", "notify", "jobaff"),
)


class Refusal(Exception):
    """What a program prints to stderr, and its exit status."""

    def __init__(self, text, status=255):
        super().__init__(text)
        self.text, self.status = text, status


class Cluster:
    """All jobs, and the answers to requests."""

    def __init__(self, folder):
        self.folder, self.jobs, self.last = folder, {}, 100
        self.settings = dict(SETTINGS)

    def read_settings(self):
        with contextlib.suppress(OSError, ValueError):
            known = json.loads((self.folder / "control.json").read_text())
            if unknown := set(known) - set(SETTINGS):
                print(f"control.json: no such setting: {unknown}", file=sys.stderr, flush=True)
            self.settings = {**SETTINGS, **known}

    # Display

    def _shown(self, kind, job):
        shown = self.settings[kind]
        return next((shown[key] for key in (str(job.number), job.name, "*") if key in shown), None)

    def stat(self, job):
        """Its state as bjobs shows it."""
        return self._shown("stat", job) or job.stat

    def pend_reason(self, job):
        """Why it waits, empty if it does not."""
        if job.stat == "PSUSP":
            return "The job was suspended by the user while pending;"
        return self.settings["pend_reason"] if job.stat == "PEND" else ""

    def known(self, uid, everybody=False):
        """Jobs that bjobs still knows, in the order of their numbers."""
        oldest = time.time() - self.settings["clean_period"]
        return [
            job
            for job in self.jobs.values()
            if (job.ended is None or job.ended > oldest) and (everybody or job.user == uid)
        ]

    # Execution

    def step(self):
        """Start jobs and perform actions that are due, and collect ended jobs."""
        now = time.time()
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                for job in self.jobs.values():
                    if job.pid == pid and job.ended is None:
                        if reason := self._shown("exit_reason", job):
                            job.cause = reason
                        job.end(status, self.folder)
        free = self.settings["slots"] - sum(job.slots for job in self.jobs.values() if job.stat in RUNS)
        for job in self.jobs.values():
            due = job.stat == "PEND" and job.starting <= now and job.queue != "closed"
            if due and job.slots <= free:
                free -= job.slots
                job.start(self.folder, self.settings)
            if job.stat in RUNS:
                job.act(now)

    def busy(self):
        return any(job.ended is None for job in self.jobs.values())

    # Requests

    def answer(self, request, uid):
        """(stdout, stderr, status); with status null the program repeats the request, as LSF's do."""
        self.read_settings()
        noise = "Cannot connect to LSF. Please wait ...\n" * self.settings["noise"]
        if self.settings["down"]:
            return "", "LSF is down. Please wait ...\n", None
        try:
            program = getattr(self, request["program"])
            stdout, stderr, status = program(request, uid)
        except Refusal as refusal:
            stdout, stderr, status = "", f"{refusal.text}\n", refusal.status
        return stdout, noise + stderr, status

    def bsub(self, request, uid):
        options, command = bsub_words(request["words"])
        if not command:
            if "script" not in request:
                return "", "", "script"
            # The command line overrides #BSUB lines.
            given = re.findall(r"^#BSUB\s+(.*)$", request["script"], re.M)
            options = {**bsub_words([word for line in given for word in shlex.split(line)])[0], **options}
            command = [request["script"]]
        command = " ".join(command)
        if not command.strip():
            raise Refusal("No command is specified. Job not submitted.")
        named = "q" in options
        queue = options.setdefault("q", "normal")
        if self.settings["refuse"]:
            raise Refusal(self.settings["refuse"])
        if queue not in QUEUES:
            raise Refusal(f"{queue}: No such queue. Job not submitted.")
        if queue == "short" and "W" in options and Job(0, uid, options, "", "", {}).minutes > 10:
            raise Refusal("RUNLIMIT: Cannot exceed queue's hard limit(s). Job not submitted.")
        if os.geteuid() != 0 and uid != os.geteuid():
            raise Refusal("User permission denied. Job not submitted.")
        self.last += 1
        environment = environment_of(options.get("env", "all"), request["environment"])
        job = Job(self.last, uid, options, command, options.get("cwd", request["cwd"]), environment)
        job.starting = job.submitted + self.settings["delay"]
        self.jobs[job.number] = job
        if self.settings["lose_answers"]:
            raise Refusal("Failed in an LSF library call: Communication time out. Job not submitted.")
        where = f"queue <{queue}>" if named else f"default queue <{queue}>"
        return f"Job <{job.number}> is submitted to {where}.\n", "", 0

    def bjobs(self, request, uid):
        flags, values, ids = plain_words(
            request["words"], ("a", "w", "noheader", "json", "p", "r", "d", "s", "l"), ("o", "J", "u", "q")
        )
        old = self.settings["version"] < "10.1"
        if old and "json" in flags:
            raise Refusal('bjobs: illegal option -- json\nUsage: bjobs [options] [job_ID | "job_ID[index_list]" ... ]')
        jobs = self.known(uid, everybody=values.get("u") == "all")
        jobs = [job for job in jobs if not ("J" in values and job.name != values["J"])]
        lost = []
        if ids:
            there = {job.number for job in jobs}
            lost = [word for word in ids if not word.isdecimal() or int(word) not in there]
            jobs = [self.jobs[int(word)] for word in ids if word not in lost]
        elif "a" not in flags and "d" not in flags:
            jobs = [job for job in jobs if job.ended is None]
        if "p" in flags:
            jobs = [job for job in jobs if job.stat in WAITS]
        stderr = "".join(f"Job <{word}> is not found\n" for word in lost)
        if not jobs and not lost:
            missing = f"Job <{values['J']}> is not found" if "J" in values else "No unfinished job found"
            return "", f"{missing}\n", 255 if "J" in values else 0
        if "o" in values:
            fields, delimiter = fields_of(values["o"], old)
            if "json" in flags and "noheader" in flags:
                raise Refusal("bjobs: -json and -noheader cannot be used together.")
            stdout = texts.customised(
                jobs, lost, fields, delimiter, self, as_json="json" in flags, header="noheader" not in flags
            )
        else:
            stdout = texts.table(jobs, self, header="noheader" not in flags) if jobs else ""
        if "json" in flags:
            stderr = ""
        return stdout, stderr, 255 if lost else 0

    def bkill(self, request, uid):
        _, values, ids = plain_words(request["words"], ("b", "r", "l"), ("s", "J", "u"))
        name = values.get("s", "").removeprefix("SIG")
        if name and not hasattr(signal, f"SIG{name}") and not name.isdecimal():
            raise Refusal(f"{name}: Illegal signal value")
        number = int(name) if name.isdecimal() else getattr(signal, f"SIG{name}", None)
        stdout = stderr = ""
        for word in ids:
            job = self.jobs.get(int(word)) if word.isdecimal() else None
            if job is None or (job.user != uid and uid != 0):
                stderr += f"Job <{word}>: {'No matching job found' if job is None else 'User permission denied'}\n"
            elif job.ended is not None:
                stderr += f"Job <{word}>: Job has already finished\n"
            elif job.stat in WAITS and number not in (None, signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
                stderr += f"Job <{word}>: Job has not started yet\n"
            else:
                stdout += f"Job <{word}> is being {'signaled' if name not in ('', 'KILL') else 'terminated'}\n"
                self._kill(job, number)
        return stdout, stderr, 255 if stderr else 0

    def _kill(self, job, number):
        job.cause = "TERM_OWNER" if number in (None, signal.SIGKILL) or job.stat in WAITS else job.cause
        if job.stat in WAITS:
            job.finish(130)
        elif number is None:
            job.signal(signal.SIGCONT)
            job.plan = job.killing(time.time(), "TERM_OWNER", self.settings)
        else:
            job.signal(number)

    def bstop(self, request, uid):
        return self._suspend(request, {"PEND": "PSUSP", "RUN": "USUSP"}, signal.SIGSTOP, "stopped")

    def bresume(self, request, uid):
        return self._suspend(request, {"PSUSP": "PEND", "USUSP": "RUN"}, signal.SIGCONT, "resumed")

    def _suspend(self, request, states, number, word):
        stdout = ""
        for id in request["words"]:
            job = self.jobs[int(id)]
            if job.started is not None:
                job.signal(number)
            job.stat = states.get(job.stat, job.stat)
            stdout += f"Job <{id}> is being {word}\n"
        return stdout, "", 0

    def bhist(self, request, uid):
        _, _, ids = plain_words(request["words"], ("l", "a", "w", "b"), ("n", "J", "u"))
        jobs = [self.jobs[int(word)] for word in ids if word.isdecimal() and int(word) in self.jobs]
        if not jobs:
            raise Refusal("No matching job found", 255)
        return "-".join(texts.history(job, self) for job in jobs), "", 0

    def bqueues(self, request, uid):
        return texts.queues(QUEUES, self.jobs.values(), self), "", 0

    def bparams(self, request, uid):
        return "Default Queues:  normal\nMBD_SLEEP_TIME used for calculations:  10 seconds\n", "", 0

    def lsid(self, request, uid):
        text = f"IBM Spectrum LSF Standard {self.settings['version']}.0.0, Jul 08 2016\nMy cluster name is double\n"
        return f"{text}My master name is {HOST}\n", "", 0


def bsub_words(words):
    """({option: value}, command). -R may occur more than once."""
    options, place = {}, 0
    while place < len(words) and words[place].startswith("-"):
        name = words[place][1:]
        place += 1
        if name in WITHOUT_VALUE:
            options[name] = ""
        elif name in WITH_VALUE:
            if place == len(words):
                raise Refusal(
                    f"bsub: option requires an argument -- {name}\nUsage: bsub [options] command [argument ...]"
                )
            value = words[place]
            if name == "n" and not re.fullmatch(r"\d+(,\d+)?", value):
                raise Refusal(f"{value}: Bad argument for option -n. Job not submitted.")
            if name == "W" and not re.fullmatch(r"(\d+:)?\d+(/\S+)?", value):
                raise Refusal(f"{value}: Bad RUNLIMIT specification. Job not submitted.")
            if name == "R" and (value.count("[") != value.count("]") or value.count("span[") > 1):
                raise Refusal("Bad resource requirement syntax. Job not submitted.")
            options[name] = f"{options[name]} {value}" if name == "R" and "R" in options else value
            place += 1
        else:
            raise Refusal(f"bsub: illegal option -- {name}\nUsage: bsub [options] command [argument ...]")
    return options, words[place:]


def environment_of(text, submitter):
    """The environment that -env gives a job: all, none, NAME, ~NAME, NAME=value, separated by commas."""
    given = {}
    for word in (part.strip() for part in text.split(",")):
        name, equals, value = word.partition("=")
        if word == "all":
            given.update(submitter)
        elif equals:
            given[name] = value
        elif name.startswith("~"):
            given.pop(name[1:], None)
        elif name in submitter and word != "none":
            given[name] = submitter[name]
    return given


def plain_words(words, without, having):
    """(flags, {option: value}, other arguments) of the other programs."""
    flags, values, rest, place = set(), {}, [], 0
    while place < len(words):
        word = words[place]
        place += 1
        if not word.startswith("-"):
            rest.append(word)
        elif word[1:] in without:
            flags.add(word[1:])
        elif word[1:] in having and place < len(words):
            values[word[1:]] = words[place]
            place += 1
        else:
            raise Refusal(f"illegal option -- {word[1:]}")
    return flags, values, rest


def fields_of(text, old):
    """(fields, delimiter) of -o."""
    match = re.search(r"""delimiter=['"](.)['"]""", text)
    if match:
        text = text.replace(match[0], "")
    fields = [word.partition(":")[0].lower() for word in text.split()]
    for name in fields:
        if name not in texts.FIELDS or (old and name in texts.SINCE_10_1):
            raise Refusal(f"bjobs: field name <{name}> is not valid")
    return fields, match[1] if match else ""


def serve(folder):
    """Answer until killed."""
    (folder / "jobs").mkdir()
    (folder / "jobs").chmod(0o755)
    cluster = Cluster(folder)
    with socket.socket(socket.AF_UNIX) as listening:
        # It is renamed when it listens.
        listening.bind(str(folder / "socket.new"))
        listening.listen(128)
        (folder / "socket.new").chmod(0o777)
        (folder / "socket.new").rename(folder / "socket")
        while True:
            ready, _, _ = select.select([listening], [], [], 0.05 if cluster.busy() else 5)
            if ready:
                connection, _ = listening.accept()
                with connection, contextlib.suppress(OSError, ValueError):
                    reply(cluster, connection)
            cluster.step()


def reply(cluster, connection):
    """Answer one program."""
    connection.settimeout(10)
    _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    with connection.makefile("rb") as stream:
        request = json.loads(stream.read())
    cluster.step()
    stdout, stderr, status = cluster.answer(request, uid)
    cluster.step()
    connection.sendall(json.dumps({"stdout": stdout, "stderr": stderr, "status": status}).encode())


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
