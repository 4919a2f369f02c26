"""What is given to sbatch and bsub for what a user asks for."""

from __future__ import annotations

from typing import Any

import pytest

from perfloom.domain.errors import InvalidRequest
from perfloom.domain.jobs import Batch, JobSpec, Mpi, MpiFlavor
from perfloom.domain.targets import SchedulerName
from perfloom.recording.schedulers import SCHEDULERS, scheduler_of

SLURM, LSF = SCHEDULERS[SchedulerName.SLURM], SCHEDULERS[SchedulerName.LSF]
SCRIPT = ("/d/job.sh", "0", "it's")
SLURM_ALWAYS = ("sbatch", "--parsable", "--job-name=n", "--output=/d/50%%", "--no-requeue", "--export=ALL")
LSF_ALWAYS = ("bsub", "-J", "n", "-o", "/d/50%", "-rn")
QUOTED = r"/d/job.sh 0 'it'\''s'"
MPI = Mpi(MpiFlavor.MPICH, ranks=8, ranks_per_node=4)


def test_no_batch_system_has_no_scheduler() -> None:
    assert scheduler_of(SchedulerName.NONE) is None
    assert {name: one.name for name, one in SCHEDULERS.items()} == {name: name for name in ("slurm", "lsf")}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, ["--ntasks=1"]),
        ({"batch": Batch(queue="q 1", project="p")}, ["--partition=q 1", "--account=p", "--ntasks=1"]),
        ({"batch": Batch(wall_time_s=1)}, ["--time=0:01:00", "--ntasks=1"]),
        ({"batch": Batch(wall_time_s=90 * 3600 + 1)}, ["--time=90:01:00", "--ntasks=1"]),
        (
            {"mpi": MPI, "batch": Batch(nodes=2, cpus=3, exclusive=True)},
            ["--nodes=2", "--ntasks=8", "--ntasks-per-node=4", "--cpus-per-task=3", "--exclusive"],
        ),
        ({"batch": Batch(arguments=("--mem=1G", "-C", "a&b"))}, ["--ntasks=1", "--mem=1G", "-C", "a&b"]),
        # What is LSF's alone has no meaning here.
        ({"batch": Batch(resources="select[mem>1]")}, ["--ntasks=1"]),
    ],
)
def test_sbatch(spec: dict[str, Any], words: list[str]) -> None:
    argv = SLURM.submit_command(JobSpec(**spec), "n", SCRIPT, "/d/50%")
    own = spec["batch"].arguments if "batch" in spec else ()
    ours = words[: len(words) - len(own)]
    assert argv == (*SLURM_ALWAYS, *ours, f"--wrap=exec {QUOTED}", *own)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, []),
        ({"batch": Batch(queue="q 1", project="p")}, ["-q", "q 1", "-P", "p"]),
        ({"batch": Batch(wall_time_s=1)}, ["-W", "0:01"]),
        ({"batch": Batch(wall_time_s=90 * 3600 + 61)}, ["-W", "90:02"]),
        ({"batch": Batch(cpus=4, exclusive=True)}, ["-n", "4", "-x"]),
        ({"mpi": MPI}, ["-n", "8", "-R", "span[ptile=4]"]),
        ({"mpi": MPI, "batch": Batch(cpus=2)}, ["-n", "16", "-R", "span[ptile=8]"]),
        (
            {"mpi": MPI, "batch": Batch(resources="select[mem>1] rusage[mem=5]")},
            ["-n", "8", "-R", "select[mem>1] rusage[mem=5] span[ptile=4]"],
        ),
        # No span is added to a request that has one, or that cannot have one.
        ({"mpi": MPI, "batch": Batch(resources="span[hosts=1]")}, ["-n", "8", "-R", "span[hosts=1]"]),
        ({"mpi": MPI, "batch": Batch(resources="1*{a}+7*{b}")}, ["-n", "8", "-R", "1*{a}+7*{b}"]),
        ({"mpi": MPI, "batch": Batch(resources="{a} || {b}")}, ["-n", "8", "-R", "{a} || {b}"]),
        ({"batch": Batch(arguments=("-M", "500", "-Jd", "text"))}, ["-M", "500", "-Jd", "text"]),
        *[
            ({"batch": Batch(arguments=(word,))}, [word])
            for word in (
                "-Jdtext",
                "-R[x]",
                "-hostfile=x",
                "-rn",
                "-hl",
                "-outdir/x",
                "-ext=x",
                "-Ne",
                "-env=all",
                "-We5",
                "-a=b",
            )
        ],
        ({"batch": Batch(nodes=2)}, []),
    ],
)
def test_bsub(spec: dict[str, Any], words: list[str]) -> None:
    """The command is one word, since LSF gives it to /bin/sh."""
    assert LSF.submit_command(JobSpec(**spec), "n", SCRIPT, "/d/50%") == (*LSF_ALWAYS, *words, QUOTED)


@pytest.mark.parametrize(
    ("name", "word"),
    [
        *[(SchedulerName.SLURM, word) for word in ("--array=1-9", "--arr", "-a1-9", "-a", "--wait", "-W", "--wrap=x")],
        *[(SchedulerName.SLURM, word) for word in ("--test-only", "-Jx", "--job-name", "--output=x", "--clusters=all")],
        # Behind options without a value in one word.
        *[(SchedulerName.SLURM, word) for word in ("-Ha1-9", "-vW", "-sJname", "--external")],
        # Cut short as getopt_long takes it, also where only some versions have another option that begins so.
        *[(SchedulerName.SLURM, word) for word in ("--j=x", "--j", "--jo=x", "--ar=1-9", "--wra=x", "--cluster=all")],
        *[
            (SchedulerName.SLURM, word)
            for word in ("--w", "--o=x", "--ou=x", "--er=x", "--te", "--req", "--vers", "--us")
        ],
        *[(SchedulerName.LSF, word) for word in ("-K", "-I", "-J", "-o", "-oo", "-r", "-pack")],
        *[(SchedulerName.LSF, word) for word in ("-jsdl", "-jsdl_strict", "-json", "-yaml", "-jsonfile", "-json=file")],
        # Glued to its value.
        *[(SchedulerName.LSF, word) for word in ("-Jx", "-J=x", "-Jx[1-9]", "-J%5", "-o/tmp/x", "-oo/tmp/x", "-Ispx")],
        *[(SchedulerName.LSF, word) for word in ("-e/tmp/x", "-eo/tmp/x", "-i/tmp/x", "-is/tmp/x", "-fa>b", "-packx")],
    ],
)
def test_what_is_more_than_one_job_that_runs_once_is_refused(name: SchedulerName, word: str) -> None:
    with pytest.raises(InvalidRequest, match="Remove") as refused:
        SCHEDULERS[name].submit_command(JobSpec(batch=Batch(arguments=("-H", word, "value"))), "n", SCRIPT, "/o")
    assert refused.value.field == "batch_arguments"


@pytest.mark.parametrize("name", ["slurm", "lsf"])
def test_arguments_are_never_part_of_a_script(name: str) -> None:
    scheduler = SCHEDULERS[SchedulerName(name)]
    word = "$(touch x)"
    for argv in (
        scheduler.status_command([word, "2"]),
        scheduler.history_command(word),
        scheduler.find_command(word),
        scheduler.cancel_command([word], gently=True),
        scheduler.cancel_command([word], gently=False),
    ):
        place = 2 if argv[0] == "sh" else 0
        assert word in argv and word not in argv[place]


@pytest.mark.parametrize(
    "before", [(), ("-x",), ("-M500",), ("-M", "500")], ids=["alone", "no-value", "glued", "value"]
)
def test_a_word_that_lsf_would_take_for_the_command(before: tuple[str, ...]) -> None:
    """bsub hands all words from the first that is no option on to a shell."""
    with pytest.raises(InvalidRequest) as refused:
        LSF.submit_command(JobSpec(batch=Batch(arguments=(*before, "$(touch /tmp/x)"))), "n", SCRIPT, "/o")
    assert refused.value.field == "batch_arguments"


@pytest.mark.parametrize(
    "words",
    [
        ("/tmp/mine.sh",),
        ("--", "/tmp/mine.sh"),
        ("--",),
        ("-",),
        (":",),
        ("--mem=1G", "mine.sh"),
        ("--mem", "1G", "mine.sh"),
        ("-H", "mine.sh"),
        ("-HC", "haswell", "mine.sh"),
        ("-C", "haswell", "mine.sh"),
        ("-Chaswell", "mine.sh"),
        ("-k", "off"),
        ("--exclusive", "user"),
        ("--nice", "5"),
        ("--of-a-plugin", "value"),
        ("--ntasks-per", "3"),
        ("",),
    ],
    ids=" ".join,
)
def test_a_word_that_sbatch_would_take_for_the_script(words: tuple[str, ...]) -> None:
    """sbatch runs it instead of the job, with the rest as arguments."""
    with pytest.raises(InvalidRequest, match="instead of the job") as refused:
        SLURM.submit_command(JobSpec(batch=Batch(arguments=words)), "n", SCRIPT, "/o")
    assert refused.value.field == "batch_arguments"


@pytest.mark.parametrize(
    "words",
    [
        ("--mem", "1G", "-C", "haswell", "--exclusive=user"),
        ("-HC", "haswell"),
        ("-koff", "-G2", "--gres", "gpu:1"),
        ("--const", "haswell", "--comment", "--"),
        ("--comment", "any words", "--of-a-plugin=value"),
        ("-x", "n1,n2", "--nice=5"),
        ("--export=NONE", "--exclus", "--cluster-c=x", "--constr", "haswell", "--wait-all=1", "--err-of-a-plugin=x"),
    ],
    ids=" ".join,
)
def test_values_of_options_of_sbatch_are_taken(words: tuple[str, ...]) -> None:
    assert SLURM.submit_command(JobSpec(batch=Batch(arguments=words)), "n", SCRIPT, "/o")[-len(words) :] == words


def test_an_option_of_sbatch_without_its_value() -> None:
    """The next word of sbatch's command line would be taken for it."""
    with pytest.raises(InvalidRequest, match="needs a value"):
        SLURM.submit_command(JobSpec(batch=Batch(arguments=("-H", "--mem"))), "n", SCRIPT, "/o")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        *[((option,), option) for option in ("-w", "-q", "-R", "-M", "-P", "-env", "-app", "-gpu")],
        (("-W", "1:00", "-P"), "-P"),
        (("-x", "-Jd", "text", "-q"), "-q"),
        # The next option would be its value, and the word behind that one the command.
        (("-P", "-q", "short"), "-P"),
        (("-q", "-x"), "-q"),
    ],
)
def test_an_option_of_bsub_without_its_value(words: tuple[str, ...], option: str) -> None:
    """The command would be taken for it."""
    with pytest.raises(InvalidRequest, match=f"'{option}' .* needs a value") as refused:
        LSF.submit_command(JobSpec(batch=Batch(arguments=words)), "n", SCRIPT, "/o")
    assert refused.value.field == "batch_arguments"


@pytest.mark.parametrize(
    "words",
    [
        ("-Jd", "-a text", "-x"),
        ("-Jd", "--"),
        ("-P", "p", "-ar", "-q", "short"),
        ("-w", "done(1)", "-Ne"),
        ("-qshort",),
        ("-later_version", "value"),
        ("-later_version",),
    ],
    ids=" ".join,
)
def test_values_of_options_of_bsub_are_taken(words: tuple[str, ...]) -> None:
    assert LSF.submit_command(JobSpec(batch=Batch(arguments=words)), "n", SCRIPT, "/o")[-1 - len(words) : -1] == words


def test_two_dashes_are_no_option_of_bsub() -> None:
    with pytest.raises(InvalidRequest, match="for the command"):
        LSF.submit_command(JobSpec(batch=Batch(arguments=("--", "x"))), "n", SCRIPT, "/o")
