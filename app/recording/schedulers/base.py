"""What a batch system is to Perfloom: argv to submit, ask and cancel, and the reading of what those print."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from ...domain.jobs import JobSpec
from ...domain.targets import BatchQueue, BatchStatus


class Scheduler(Protocol):
    """Runs nothing: gives argv and takes what it printed. Every argv is run at the target, without a shell of its own.

    Where more than one program must be asked, argv is `sh -c` with a script that never changes, and what differs from
    call to call follows as its arguments: no user's word is ever part of a script.

    What it printed is `stdout`, `stderr` and `status` (the exit status). Methods that read raise InvalidRequest where
    the batch system refused what the user asked for (a queue that does not exist), in its own words and with what to
    do, Unreachable where it does not answer at present, and Unavailable where its programs are not there.
    """

    @property
    def name(self) -> str:
        """As it stands in a target."""

    @property
    def title(self) -> str:
        """For a person."""

    @property
    def hint(self) -> str:
        """What it means for a target, in one line."""

    @property
    def fields(self) -> Mapping[str, str]:
        """The fields of Batch that it takes, each with its label in the form; "" for the form's own label."""

    @property
    def version_pattern(self) -> str:
        """A regular expression whose group is the version, in what its section of the probe printed."""

    @property
    def version_commands(self) -> tuple[tuple[str, ...], ...]:
        """argv that print its version: the first that succeeds counts. Run where its first program is on PATH."""

    @property
    def job_variable(self) -> str:
        """A variable of the environment that is set in its jobs, and nowhere else."""

    @property
    def job_script(self) -> str:
        """sh, run in a job before an MPI launcher: sets pl_nodes, the number of hosts ("" if unknown), and where they
        apply pl_hostfile (a file with the hosts, one for each slot), pl_blaunch (ranks on other hosts are started with
        blaunch) and pl_by_name (processes on other hosts connect to this one by its name)."""

    @property
    def programs(self) -> tuple[str, ...]:
        """What must be on PATH there."""

    def submit_command(self, spec: JobSpec, job_name: str, script: Sequence[str], output: str) -> tuple[str, ...]:
        """argv that hands over the command line `script`. job_name: made by us, found again by `named`. output: the
        file for what the batch system itself has to say. Raises InvalidRequest for arguments that would turn it into
        something else than one job that runs once."""

    def parse_submit_output(self, stdout: str, stderr: str, status: int) -> str:
        """The batch system's id of what was submitted. After Unreachable it may be submitted all the same: ask by
        `named` before anything else."""

    def find_command(self, job_name: str) -> tuple[str, ...]:
        """argv that finds the id of a job by its name, for a submission whose answer was lost."""

    def parse_find_output(self, stdout: str, stderr: str, status: int) -> str | None:
        """The id that `named` found, None where there is none."""

    def status_command(self, ids: Sequence[str]) -> tuple[str, ...]:
        """argv that asks for the state of many jobs at once: one request to the batch system."""

    def parse_status_output(
        self, ids: Sequence[str], stdout: str, stderr: str, status: int
    ) -> Mapping[str, BatchStatus]:
        """The state of each of `ids`; GONE for those that are not known any more."""

    def history_command(self, id: str) -> tuple[str, ...]:
        """argv that asks the history for one job that is GONE."""

    def parse_history_output(self, id: str, stdout: str, stderr: str, status: int) -> BatchStatus:
        """What the history says; UNKNOWN where it says nothing."""

    def cancel_command(self, ids: Sequence[str], *, gently: bool) -> tuple[str, ...]:
        """argv that ends jobs. gently: those that run are sent TERM, so that they can complete what is recorded, and
        those that wait are taken out of the queue. Otherwise whatever is left of them is killed."""

    def parse_cancel_output(self, stdout: str, stderr: str, status: int) -> None:
        """Reads what `cancel` printed. That jobs have ended already is no error."""

    def queues_command(self) -> tuple[str, ...]:
        """argv that lists queues."""

    def parse_queues_output(self, stdout: str, stderr: str, status: int) -> tuple[BatchQueue, ...]:
        """The queues."""
