"""How a recording ended, in words."""

from typing import Any

import pytest

from perfloom.domain.jobs import JobSpec, Outcome, Scope
from perfloom.workers.base.outcome import RecordingOutcome, explain_no_recording, last_message
from perfloom.workers.local.outcome import parse_exit

SPEC = JobSpec(command=("a.out",), duration_s=5.0)


def end(spec: JobSpec = SPEC, cancel: bool = False, **exit: Any) -> RecordingOutcome:
    return parse_exit(
        {"exit_status": None, "signal": None, "stopped": "", "error": None} | exit, spec, cancel_requested=cancel
    )


def test_a_good_end() -> None:
    assert end(exit_status=0) == RecordingOutcome(Outcome(exit_status=0), ())


def test_an_exit_status() -> None:
    ending = end(exit_status=3)
    assert ending.outcome.exit_status == 3 and ending.incomplete_reasons == ("The command ended with exit status 3.",)


def test_a_signal() -> None:
    ending = end(signal=11)
    assert ending.outcome.signal == 11
    assert ending.incomplete_reasons == ("The command was ended by signal 11 (SIGSEGV).",)
    assert "signal 99" in end(signal=99).incomplete_reasons[0]


def test_the_limit_makes_a_command_incomplete_but_not_a_recording_without_one() -> None:
    cut = end(stopped="time_limit", signal=2)
    assert (
        cut.outcome == Outcome(time_limit=True, reasons=cut.incomplete_reasons)
        and "limit of 5 s" in cut.incomplete_reasons[0]
    )
    planned = end(JobSpec(scope=Scope.SYSTEM, duration_s=5.0), stopped="time_limit", signal=2)
    assert planned.outcome.time_limit and planned.incomplete_reasons == ()


def test_cancelled_by_a_person_or_with_the_server() -> None:
    person = end(cancel=True, stopped="cancelled", signal=2)
    assert person.outcome.cancelled and person.outcome.signal is None and person.incomplete_reasons
    server = end(stopped="cancelled", signal=2)
    assert not server.outcome.cancelled and "Perfloom stopped" in server.incomplete_reasons[0]


def test_remaining_processes() -> None:
    ending = end(exit_status=0, ended_processes=1)
    assert ending.incomplete_reasons == () and "1 process still ran" in ending.outcome.reasons[0]
    assert "2 processes still ran" in end(exit_status=0, ended_processes=2).outcome.reasons[0]
    assert "could not be ended: 7, 8" in end(exit_status=0, survivors=[7, 8]).outcome.reasons[0]


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("", ""),
        ("hello\n", "hello"),
        (
            "event syntax error: 'nonsense'\n                     \\___ parser error\nRun 'perf list' for a list of "
            "valid events\n\n Usage: perf record [<options>] [<command>]\n    -e, --event <event>   event selector.\n",
            "event syntax error: 'nonsense' \\___ parser error",
        ),
        ("my own output\nError:\nThe instructions event is not supported.\n", "Error: The instructions event is not"),
        ("Couldn't create thread/CPU maps: No such process\n", "Couldn't create thread/CPU maps: No such process"),
    ],
)
def test_last_message_of_perf(output: str, said: str) -> None:
    assert last_message(output).startswith(said) and (said or not last_message(output))


def test_why_there_is_nothing() -> None:
    assert (
        explain_no_recording(RecordingOutcome(Outcome(), (), "It does not exist."), "", "perf") == "It does not exist."
    )
    missing = "Failed to collect 'cpu-clock' for the '/x y' workload: No such file or directory\n"
    assert explain_no_recording(end(exit_status=255), missing, "perf").startswith(
        "/x y cannot be executed: No such file"
    )
    text = explain_no_recording(end(exit_status=255), "Error:\nThe instructions event is not supported.\n", "perf")
    assert "exit status 255" in text and "not supported" in text
    assert "submit it again" in explain_no_recording(end(exit_status=1), "", "perf")
    failed = explain_no_recording(
        end(exit_status=1), "no such option\n[ perf record: Woken up 1 times ]\n", "perf", wrote=True
    )
    assert failed == (
        "The command ended with exit status 1. No sample was recorded before that. Its message: no such option"
    )
    assert "limit of 5 s" in explain_no_recording(end(stopped="time_limit"), "", "perf")


def test_a_killed_perf_that_has_written_no_sample() -> None:
    """What it held in its buffer is lost; nothing is kept, and the job itself may be right."""
    killed = end(exit_status=0, recorder_signal=9)
    assert killed.perf_killed and "ended by signal 9 (SIGKILL)" in killed.incomplete_reasons[0]
    text = explain_no_recording(killed, "printed by the command\n", "perf", wrote=True)
    assert "perf still had them in its buffer" in text and "memory" in text and text.endswith("record a shorter time.")
    assert not any(words in text for words in ("is kept", "No sample was recorded", "See the output", "printed by"))


@pytest.mark.parametrize("scope", [Scope.COMMAND, Scope.SYSTEM])
def test_advice_after_kill(scope: Scope) -> None:
    spec = SPEC if scope is Scope.COMMAND else JobSpec(scope=scope, duration_s=5.0)
    killed = end(spec, signal=9)
    assert killed.incomplete_reasons == (
        f"{'The command' if spec.command else 'perf'} was ended by signal 9 (SIGKILL).",
    )
    assert killed.perf_killed is (scope is Scope.SYSTEM)
    for wrote in (False, True):
        text = explain_no_recording(killed, "", "perf", wrote=wrote)
        assert "memory" in text and "who ended it" in text and "correct the job" not in text
    assert "correct the job" in explain_no_recording(end(signal=11), "", "perf", wrote=True)
