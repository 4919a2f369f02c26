"""The interface of batch systems: argv to submit, query and cancel jobs, and parsers of the output."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from ...domain.jobs import JobSpec
from ...domain.targets import BatchQueue, BatchStatus


class Scheduler(Protocol):
    """A batch system. It runs nothing: it returns argv to run at the target, without a shell, and parses the output.

    If several programs must be run, argv is `sh -c` with a constant script, and values are its arguments: user input is
    never part of a script.

    The output is `stdout`, `stderr` and `status` (the exit status). Parsers raise InvalidRequest if the batch system
    rejected a request (a queue that does not exist), with its message and advice, Unreachable if it does not answer at
    present, and Unavailable if its programs are missing.
    """

    @property
    def name(self) -> str:
        """Its name in a target."""

    @property
    def title(self) -> str:
        """Its name for users."""

    @property
    def hint(self) -> str:
        """A description for the target form, in one line."""

    @property
    def fields(self) -> Mapping[str, str]:
        """The fields of Batch that it supports, each with its label in the form; "" for the form's default label."""

    @property
    def version_pattern(self) -> str:
        """A regular expression whose group is the version in the output of its section of the probe."""

    @property
    def version_commands(self) -> tuple[tuple[str, ...], ...]:
        """Commands that print its version, of which the first that succeeds counts. Only run if the program of the
        first is on PATH."""

    @property
    def job_variable(self) -> str:
        """An environment variable that is set only in its jobs."""

    @property
    def job_script(self) -> str:
        """sh, run in a job before an MPI launcher: sets pl_nodes, the number of hosts ("" if unknown), and if they
        apply pl_hostfile (a file with the hosts, one for each slot), pl_blaunch (blaunch starts ranks on other hosts)
        and pl_by_name (processes on other hosts connect to this one by name)."""

    @property
    def programs(self) -> tuple[str, ...]:
        """Programs that must be on PATH at the target."""

    def submit_command(self, spec: JobSpec, job_name: str, script: Sequence[str], output: str) -> tuple[str, ...]:
        """argv that submits the command line `script`. job_name: unique, see `find_command`. output: the file for
        messages of the batch system. Raises InvalidRequest for arguments that would not result in one job that runs
        once."""

    def parse_submit_output(self, stdout: str, stderr: str, status: int) -> str:
        """The batch system's id of the submitted job. After Unreachable it may have been submitted anyway: first use
        `find_command`."""

    def find_command(self, job_name: str) -> tuple[str, ...]:
        """argv that finds the id of a job by its name, for a submission whose answer was lost."""

    def parse_find_output(self, stdout: str, stderr: str, status: int) -> str | None:
        """The id in the output of `find_command`, None without one."""

    def status_command(self, ids: Sequence[str]) -> tuple[str, ...]:
        """argv that queries the state of many jobs with one request to the batch system."""

    def parse_status_output(
        self, ids: Sequence[str], stdout: str, stderr: str, status: int
    ) -> Mapping[str, BatchStatus]:
        """The state of each of `ids`; GONE for unknown ones."""

    def history_command(self, id: str) -> tuple[str, ...]:
        """argv that queries the history for one job that is GONE."""

    def parse_history_output(self, id: str, stdout: str, stderr: str, status: int) -> BatchStatus:
        """The state in the history; UNKNOWN if it is not there."""

    def cancel_command(self, ids: Sequence[str], *, gently: bool) -> tuple[str, ...]:
        """argv that ends jobs. gently: running jobs get TERM, so that they can complete their recordings, and pending
        ones are removed from the queue. Otherwise they are killed."""

    def parse_cancel_output(self, stdout: str, stderr: str, status: int) -> None:
        """Checks the output of `cancel_command`. It is no error if jobs have already ended."""

    def queues_command(self) -> tuple[str, ...]:
        """argv that lists queues."""

    def parse_queues_output(self, stdout: str, stderr: str, status: int) -> tuple[BatchQueue, ...]:
        """The queues."""
