"""Reading what LSF's programs print."""

from __future__ import annotations

import pytest

from perfloom.domain.errors import InvalidRequest, Unreachable
from perfloom.domain.targets import BatchState, BatchStatus
from perfloom.recording.schedulers.lsf import Lsf
from perfloom.recording.schedulers.lsf_states import END_REASONS, REASONS, STATES, explain_reason

LSF = Lsf()

# bjobs -a -o "jobid stat queue exec_host exit_code exit_reason pend_reason" -json 1 2 3 4 5 99, of a busy LSF.
JSON = """\
Cannot connect to LSF. Please wait ...
{
  "COMMAND":"bjobs",
  "JOBS":6,
  "RECORDS":[
    {
      "JOBID":"1",
      "STAT":"RUN",
      "QUEUE":"normal",
      "EXEC_HOST":"4*hostA:2*hostB",
      "EXIT_CODE":"",
      "EXIT_REASON":"",
      "PEND_REASON":""
    },
    {
      "JOBID":"2",
      "STAT":"PEND",
      "QUEUE":"normal",
      "EXEC_HOST":"",
      "EXIT_CODE":"",
      "EXIT_REASON":"",
      "PEND_REASON":"Job's resource requirements not satisfied: 2 hosts; Load information unavailable: 1 host;"
    },
    {
      "JOBID":"3",
      "STAT":"EXIT",
      "QUEUE":"normal",
      "EXEC_HOST":"hostA",
      "EXIT_CODE":"130",
      "EXIT_REASON":"TERM_OWNER: job killed by owner",
      "PEND_REASON":""
    },
    {
      "JOBID":"4",
      "STAT":"EXIT",
      "QUEUE":"normal",
      "EXEC_HOST":"hostA",
      "EXIT_CODE":"3",
      "EXIT_REASON":"",
      "PEND_REASON":""
    },
    {
      "JOBID":"5",
      "STAT":"EXIT",
      "QUEUE":"normal",
      "EXEC_HOST":"hostA",
      "EXIT_CODE":"140",
      "EXIT_REASON":"TERM_RUNLIMIT: job killed after reaching LSF run time limit",
      "PEND_REASON":""
    },
    {
      "JOBID":"99",
      "ERROR":"Job <99> is not found"
    }
  ]
}
"""
# bjobs -a -noheader -o "jobid stat exit_code exec_host delimiter='^'" of LSF 9.1
OLD = "1^RUN^-^4*hostA:2*hostB\n2^PEND^-^-\n3^EXIT^130^hostA\n4^EXIT^3^hostA\n5^EXIT^140^hostA\n"
IDS = ("1", "2", "3", "4", "5", "99")


def test_many_jobs_as_json() -> None:
    seen = LSF.parse_status_output(IDS, JSON, "", 0)
    assert seen["1"] == BatchStatus("1", BatchState.RUNNING, "RUN", hosts=("hostA", "hostB"))
    assert seen["2"].state is BatchState.PENDING
    assert seen["2"].reason == (
        "No host currently has the requested resources (-R, CPUs on one host). (Job's resource requirements not satisfied: "
        "2 hosts; Load information unavailable: 1 host)"
    )
    assert (seen["3"].state, seen["3"].signal) == (BatchState.CANCELLED, 2)
    assert (seen["4"].state, seen["4"].exit_status, seen["4"].reason) == (BatchState.FAILED, 3, "")
    assert (seen["5"].state, seen["5"].signal) == (BatchState.TIME_LIMIT, 12)
    assert seen["5"].reason.startswith("It reached its time limit. Request a longer wall time")
    assert seen["99"].state is BatchState.GONE


def test_many_jobs_of_an_old_lsf() -> None:
    """It tells no reasons; 140 is 128 and USR2, which is what a job gets at its limit."""
    seen = LSF.parse_status_output(IDS, OLD, "Job <99> is not found\n", 255)
    assert {id: status.state for id, status in seen.items()} == {
        "1": BatchState.RUNNING,
        "2": BatchState.PENDING,
        "3": BatchState.FAILED,
        "4": BatchState.FAILED,
        "5": BatchState.TIME_LIMIT,
        "99": BatchState.GONE,
    }
    assert seen["1"].hosts == ("hostA", "hostB")
    assert seen["3"].signal == 2


def test_none_is_known_any_more() -> None:
    assert LSF.parse_status_output(["7"], "", "Job <7> is not found\n", 255)["7"].state is BatchState.GONE


def test_a_job_it_says_nothing_of_is_not_gone() -> None:
    assert LSF.parse_status_output(["1", "7"], OLD, "", 0)["7"].state is BatchState.UNKNOWN


@pytest.mark.parametrize(
    ("stdout", "stderr", "status"),
    [
        ("", "Cannot connect to LSF. Please wait ...\nCannot connect to LSF. Please wait ...\n", 255),
        ("", "LSF is down. Please wait ...\n", 255),
        ("", "Failed in an LSF library call: LIM is down; try later\n", 255),
        ("", "Request from non-LSF host rejected\n", 255),
        ("", "", 1),
        ("", "", 0),
        ('{"COMMAND":"bjobs","RECORDS":[{"JOB', "", 0),
        ("something new\n", "", 0),
    ],
)
def test_half_an_answer_is_none(stdout: str, stderr: str, status: int) -> None:
    """Jobs that are not in it must not be taken for gone."""
    with pytest.raises(Unreachable, match="LSF does not respond"):
        LSF.parse_status_output(["1"], stdout, stderr, status)


def test_unknown_name_is_not_found() -> None:
    assert LSF.parse_find_output("", "Job <perfloom-a-0> is not found\n", 255) is None
    for stderr, status in (("", 0), ("", 255), ("LSF is down. Please wait ...\n", 255)):
        with pytest.raises(Unreachable):
            LSF.parse_find_output("", stderr, status)


def test_what_bsub_answers() -> None:
    assert LSF.parse_submit_output("Job <123> is submitted to default queue <normal>.\n", "", 0) == "123"
    noise = "Cannot connect to LSF. Please wait ...\n"
    assert LSF.parse_submit_output(f"{noise}Generic job.\nJob <9> is submitted to queue <q>.\n", noise, 0) == "9"
    with pytest.raises(Unreachable):
        LSF.parse_submit_output("", "Failed in an LSF library call: Communication time out. Job not submitted.\n", 255)


@pytest.mark.parametrize(
    ("words", "field", "advice"),
    [
        ("x: No such queue. Job not submitted.", "queue", "Choose a queue that the target's check lists."),
        ("User cannot use the queue. Job not submitted.", "queue", "Choose a queue"),
        ("RUNLIMIT: Cannot exceed queue's hard limit(s). Job not submitted.", "wall_time", "Request a time"),
        ("Bad resource requirement syntax. Job not submitted.", "resources", "Correct the resource string."),
        ("Too many processors requested. Job not submitted.", "ranks", "Request as many ranks"),
        (
            "bsub: illegal option -- z\nUsage: bsub [-h] [-q queue_name] [-P project_name] [-n min_proc] [-R res_req]",
            "batch_arguments",
            "illegal option -- z. Correct or remove that option in the further arguments.",
        ),
        ("bsub: option requires an argument -- q\nUsage: bsub [options]", "batch_arguments", "Correct or remove"),
        ("Unknown-nation: No such queue. Job not submitted.", "queue", "Choose a queue"),
        ("Request aborted by esub. Job not submitted.", None, ""),
        ("", None, "no reason was given."),
    ],
)
def test_what_bsub_refuses(words: str, field: str | None, advice: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        LSF.parse_submit_output("", f"{words}\n", 255)
    assert refused.value.message.startswith("LSF rejected the job: ")
    assert advice in refused.value.message
    assert refused.value.field == field


HISTORY = """
Job <345>, Job Name <Done successfully>, User <me>, Project <default>, Command
                     <echo Exited with exit code 9>
Tue Nov 12 10:00:00: Submitted from host <login>, to Queue <normal>, CWD <$HOME
                     /TERM_ADMIN>;
Tue Nov 12 10:00:03: Dispatched 1 Task(s) on Host(s) <hostA>;
Tue Nov 12 10:00:03: Starting (Pid 5332);
"""
SUMMARY = """
Summary of time in seconds spent in various states by  Tue Nov 12 11:00:00
  PEND     PSUSP    RUN      USUSP    SSUSP    UNKWN    TOTAL
  3        0        10       0        0        0        13
"""


@pytest.mark.parametrize(
    ("events", "seen"),
    [
        (
            "Tue Nov 12 10:00:13: Done successfully. The CPU time used is 0.1 seconds;\n"
            "Tue Nov 12 10:00:13: Post job process done successfully;\n",
            (BatchState.DONE, 0, None),
        ),
        ("Tue Nov 12 10:00:13: Exited with exit code 3. The CPU time used\n   is 0.1;\n", (BatchState.FAILED, 3, None)),
        ("Tue Nov 12 10:00:13: Exited with exi\n                     t code 143.\n", (BatchState.FAILED, None, 15)),
        (
            "Tue Nov 12 10:00:12: Signal <KILL> requested by user or administrator <me>;\n"
            "Tue Nov 12 10:00:13: Exited by signal\n                     2. The CPU time used is 0.1 seconds;\n"
            "Tue Nov 12 10:00:13: Completed <exit>; TERM_OWNER: job killed by own\n                     er;\n",
            (BatchState.CANCELLED, None, 2),
        ),
        (
            "Tue Nov 12 10:00:13 2024: Exited with exit code 140. The CPU time used is 0.1 seconds;\n"
            "Tue Nov 12 10:00:13: Completed <exit>; TERM_RUNLIMIT: job killed after reaching LSF run time limit;\n",
            (BatchState.TIME_LIMIT, None, 12),
        ),
        (
            "Tue Nov 12 10:00:13: Exited; job has been forced to exit with TERM_MEMLIMIT;\n",
            (BatchState.FAILED, None, None),
        ),
        # It ran again: the last end counts.
        (
            "Tue Nov 12 10:00:13: Exited with exit code 3;\nTue Nov 12 10:00:14: Done successfully.\n",
            (BatchState.DONE, 0, None),
        ),
        ("", (BatchState.UNKNOWN, None, None)),
    ],
)
def test_what_history_says(events: str, seen: tuple[BatchState, int | None, int | None]) -> None:
    """Neither names nor commands are taken for what happened."""
    back = LSF.parse_history_output("345", HISTORY + events + SUMMARY, "", 0)
    assert (back.id, back.state, back.exit_status, back.signal) == ("345", *seen)


def test_history_without_the_job_and_without_an_answer() -> None:
    assert LSF.parse_history_output("1", "", "No matching job found\n", 255).state is BatchState.UNKNOWN
    with pytest.raises(Unreachable):
        LSF.parse_history_output("1", "", "LSF is down. Please wait ...\n", 255)


@pytest.mark.parametrize("word", STATES)
def test_every_state_has_a_meaning(word: str) -> None:
    status = LSF.parse_status_output(["1"], f"1^{word}^-^h\n", "", 0)["1"]
    assert (status.native, status.state) == (word, STATES[word])
    assert bool(status.reason) is (word not in ("PEND", "RUN", "DONE", "PDONE", "POST_DONE", "EXIT"))


@pytest.mark.parametrize("keyword", END_REASONS)
def test_every_keyword_of_an_end_has_a_meaning(keyword: str) -> None:
    state, advice = END_REASONS[keyword]
    record = (
        f'{{"COMMAND":"bjobs","RECORDS":[{{"JOBID":"1","STAT":"EXIT","EXIT_CODE":"1","EXIT_REASON":"{keyword}: x"}}]}}'
    )
    status = LSF.parse_status_output(["1"], record, "", 0)["1"]
    assert (status.state, status.reason) == (state, f"{advice} ({keyword}: x)")


@pytest.mark.parametrize(
    ("words", "begins"),
    [
        ("New job is waiting for scheduling;", "LSF has not scheduled it yet."),
        ("There are no suitable hosts for the job;", "It cannot start like this"),
        ("Not enough hosts to meet the job's spanning requirement;", "It cannot start like this"),
        ("The job has a specified start time;", "It waits for its start time"),
        ("Job dependency condition not satisfied;", "It waits for other jobs that it depends on."),
        ("Dependency condition invalid or never satisfied;", "It cannot start like this"),
        ("The job was suspended by the user while pending;", "It was suspended before it started"),
        ("The queue is inactivated by its time windows;", "Its queue is closed now."),
        ("The queue has reached its job slot limit;", "Its queue is full"),
        ("The user has reached his/her job slot limit;", "It waits for your other jobs"),
        ("Not enough job slot(s): 3 hosts;", "It waits for CPUs that are in use."),
        ("Job slot limit reached: 1 host;", "It waits for CPUs that are in use."),
        ("Job's requirement for exclusive execution not satisfied: 2 hosts;", "It waits for a host"),
        ("Closed by LSF administrator: 4 hosts;", "Hosts that could run it are down or closed."),
        ("Load threshold reached: 1 host;", "The hosts that could run it are busy."),
        ("Something new;", "LSF's reason: Something new."),
        ("", ""),
    ],
)
def test_reasons_for_waiting(words: str, begins: str) -> None:
    text = explain_reason(words)
    assert text.startswith(begins) if begins else text == ""
    assert words.strip(" ;") in text


def test_no_reason_is_said_twice() -> None:
    assert len({pattern.pattern for pattern, _ in REASONS}) == len(REASONS)


# bqueues -w, and bparams
QUEUES = """\
QUEUE_NAME      PRIO STATUS          MAX JL/U JL/P JL/H NJOBS  PEND   RUN  SUSP  RSV PJOBS
owners           43  Open:Active       -    6    -    -    12     4     8     0    0     1
normal           30  Open:Active     100    -    -    -     0     0     0     0    0     0
night            20  Open:Inact_Win    -    -    -    -     3     3     0     0    0     3
old              10  Closed:Inact_Adm  -    -    -    -     0     0     0     0    0     0
Default Queues:  normal night
MBD_SLEEP_TIME used for calculations:  10 seconds
"""


def test_queues() -> None:
    found = LSF.parse_queues_output(QUEUES, "", 0)
    assert [(queue.name, queue.default, queue.open) for queue in found] == [
        ("owners", False, True),
        ("normal", True, True),
        ("night", False, False),
        ("old", False, False),
    ]
    assert found[0].text == "4 slots wait, 8 run"


def test_cancelling_what_has_ended_is_no_error() -> None:
    LSF.parse_cancel_output("Job <1> is being terminated\n", "Job <2>: Job has already finished\n", 255)
    LSF.parse_cancel_output("", "Job <2>: No matching job found\n", 255)
    with pytest.raises(InvalidRequest, match="LSF did not cancel the job: Job <2>: User permission denied"):
        LSF.parse_cancel_output("", "Job <2>: User permission denied\nJob <3>: Job has already finished\n", 255)
    with pytest.raises(Unreachable):
        LSF.parse_cancel_output("", "LSF is down. Please wait ...\n", 255)
