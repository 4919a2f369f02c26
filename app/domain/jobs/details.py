"""What the steps of a job record for later steps (JobDetails), and how often cancellation was requested."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, get_type_hints

from ..errors import Prompt
from ..isolation import ProtectedServer
from ..json_fields import select_known_fields
from .series import SeriesRun
from .state import Executor


@dataclass(frozen=True)
class Cancellation:
    """Requests to end a job at a target. times: how many were processed. since: the first (epoch). last: the last.
    gentle: whether the target was asked to end the job."""

    times: int = 0
    since: float = 0.0
    last: float = 0.0
    gentle: bool = False

    @property
    def is_discarded(self) -> bool:
        """Whether the recording is to be discarded: cancellation was requested again."""
        return self.times > 1


_NOT_CANCELLED = Cancellation()


def _keep(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class _Stored:
    """How a field is stored as JSON. key: never changes, so that stored jobs remain readable."""

    key: str
    parse: Callable[[Any], Any] = _keep
    to_json: Callable[[Any], Any] = _keep


def _parse_executor(planned: Any) -> Executor:
    return Executor.SCRIPTS if planned else Executor.SUPERVISOR


def _is_scripts(executor: Executor) -> bool:
    return executor is Executor.SCRIPTS


def _parse_texts(values: Any) -> tuple[str, ...]:
    return tuple(map(str, values or ()))


def _parse_prompts(values: Any) -> tuple[Prompt, ...]:
    return tuple(Prompt(str(value["name"]), str(value["text"])) for value in values or ())


def _format_prompts(prompts: tuple[Prompt, ...]) -> list[dict[str, str]]:
    return [asdict(prompt) for prompt in prompts]


def _parse_runs(values: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(map(int, part)) for part in values)


def _format_runs(parts: tuple[tuple[int, ...], ...]) -> list[list[int]]:
    return [list(part) for part in parts]


def _parse_ids(values: Any) -> dict[int, str]:
    return {int(number): str(id) for number, id in values.items()}


def _format_ids(ids: Mapping[int, str]) -> dict[str, str]:
    return {str(number): id for number, id in ids.items()}


def _parse_cancellation(values: Any) -> Cancellation:
    return Cancellation(**select_known_fields(Cancellation, values or {}))


@dataclass(frozen=True)
class JobDetails:
    """Fields of a job that only its steps use; times are seconds since the epoch.

    Of every job:
    series: its place in a run series.
    executor: what runs its program, chosen when the job is claimed. runner_host: the host whose commands may process
    its steps; empty for a job of a server. server: the web server that the job was submitted to, if it has secrets to
    protect. failures: failed attempts of the present step. error_kind: the class of the error that it failed with.
    read_attempts: how often reading was started. reads_long: whether reading takes long. incomplete_reasons: why the
    recording is not complete. start_error: why the program was not started. perf_killed: whether a signal ended perf.
    is_lost: whether the process that ran the program ended without a report.

    Of a job with a supervisor: its process, as JSON of `processes.ProcessIdentity`.

    Of a job at a target:
    directory: its directory there. submission_runs: the numbers of the runs of each submission. begun: how many
    submissions were started, or may have been. submission_ids: their ids there, by number. unanswered_since: since when
    a submission has no id. unreachable_since: since when the target cannot be reached. needed_secrets: the secrets that
    the job waits for; secrets_needed_at: when the target last asked for them. quiet_since: since when nothing of it
    runs. cancellation: requests to end it. collected: whether its files are here. cleaned_up: whether its directory
    there was removed, or scheduled for removal.
    """

    executor: Annotated[Executor, _Stored("planned", _parse_executor, _is_scripts)] = Executor.SUPERVISOR
    runner_host: Annotated[str, _Stored("runner_host")] = ""
    server: Annotated[
        ProtectedServer | None, _Stored("server", ProtectedServer.from_request, ProtectedServer.to_json)
    ] = None
    failures: Annotated[int, _Stored("failures")] = 0
    error_kind: Annotated[str, _Stored("kind")] = ""
    read_attempts: Annotated[int, _Stored("readings")] = 0
    reads_long: Annotated[bool, _Stored("long")] = False
    incomplete_reasons: Annotated[tuple[str, ...], _Stored("short", _parse_texts, list)] = ()
    start_error: Annotated[str | None, _Stored("error")] = None
    perf_killed: Annotated[bool, _Stored("perf_killed")] = False
    is_lost: Annotated[bool, _Stored("vanished")] = False
    series: Annotated[SeriesRun | None, _Stored("series", SeriesRun.from_json, SeriesRun.to_json)] = None

    supervisor: Annotated[dict[str, Any] | None, _Stored("supervisor")] = None

    directory: Annotated[str, _Stored("directory")] = ""
    submission_runs: Annotated[tuple[tuple[int, ...], ...], _Stored("runs", _parse_runs, _format_runs)] = ()
    begun: Annotated[int, _Stored("begun")] = 0
    submission_ids: Annotated[Mapping[int, str], _Stored("submissions", _parse_ids, _format_ids)] = field(
        default_factory=dict
    )
    unanswered_since: Annotated[float | None, _Stored("half")] = None
    unreachable_since: Annotated[float | None, _Stored("unreached")] = None
    needed_secrets: Annotated[tuple[Prompt, ...], _Stored("needs", _parse_prompts, _format_prompts)] = ()
    secrets_needed_at: Annotated[float | None, _Stored("needed")] = None
    quiet_since: Annotated[float | None, _Stored("quiet")] = None
    cancellation: Annotated[Cancellation, _Stored("ending", _parse_cancellation, asdict)] = _NOT_CANCELLED
    collected: Annotated[bool, _Stored("collected")] = False
    cleaned_up: Annotated[bool, _Stored("left")] = False

    def reachable(self) -> "JobDetails":
        """The same for a job whose target can be reached."""
        return replace(self, unreachable_since=None, needed_secrets=(), secrets_needed_at=None)

    def to_json(self) -> dict[str, Any]:
        """Without the fields that have their default value."""
        return {
            stored.key: stored.to_json(value)
            for name, stored in _STORED.items()
            if (value := getattr(self, name)) != getattr(_DEFAULT, name)
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "JobDetails":
        """The reverse of `to_json`. Keys of another version are ignored."""
        return cls(**{name: stored.parse(data[stored.key]) for name, stored in _STORED.items() if stored.key in data})


_STORED: dict[str, _Stored] = {
    name: hint.__metadata__[0] for name, hint in get_type_hints(JobDetails, include_extras=True).items()
}
_DEFAULT = JobDetails()
