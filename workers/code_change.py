"""A change of the machine code of a stored result: files that came from elsewhere are added, and it is read again.

The restricted child checks build ids. The present code is replaced only by one that knows at least as much.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from perfloom.analysis.source.missing_code import (
    AddedText,
    MissingSource,
    add_texts,
    keep_texts,
    list_lost_objects,
    list_missing_objects,
    list_missing_sources,
)
from perfloom.config import Settings
from perfloom.domain.errors import NotFound, UnreadableInput
from perfloom.domain.profile import Profile
from perfloom.domain.schemas.code import Code, CodeStatus
from perfloom.ingest.machine_code.source_text import decode_source
from perfloom.store import Store
from perfloom.store.files import binary_cache
from perfloom.store.files.binary_cache import BinaryFolder, FileKind
from perfloom.store.files.code import read_code_folder, write_code
from perfloom.store.files.code_folder import replace_code, stage_code
from perfloom.store.files.disk import remove_tree
from perfloom.store.files.locks import wait_for_lock

from .code_reading import is_by_command, is_recorded_here
from .read import reading
from .read.code_provider import CodeProvider, FetchedSource, select_objects
from .read.request import CodeRequest

LOCK_S = 600.0
_KNOWN = (CodeStatus.COMPLETE, CodeStatus.NO_LINES, CodeStatus.NO_SYMBOLS)
_GOOD = {FileKind.EXECUTABLE: _KNOWN, FileKind.DEBUG: (CodeStatus.COMPLETE,)}
"""The states of a binary for which a received file is kept."""


@dataclass
class CodeChange:
    """code: the present state, whose tables may be mapped from `staged`. build_ids: of the recording, by module.
    folders: with received files. incoming: files that are not checked yet. recorded_here: whether on this machine.
    reads_dumps: see `Binaries`.
    started: when the recording began, seconds since the epoch."""

    settings: Settings
    result: Path
    profile: Profile
    code: Code
    build_ids: dict[str, str]
    folders: tuple[str, ...]
    incoming: BinaryFolder
    recorded_here: bool
    reads_dumps: bool
    started: float | None
    staged: list[Path] = field(default_factory=list)
    is_changed: bool = False

    def use(self, provider: CodeProvider) -> None:
        """Add what a provider has of what is missing. Raises what the provider raises, after what came before was
        added."""
        wanted = select_objects(list_missing_objects(self.profile, self.code))
        if wanted:
            try:
                provider.fetch_objects(wanted, self.incoming)
            finally:
                if any(self.incoming.root.iterdir()):
                    self.read_again()
                    self.keep_received(provider.origin)
        missing = list_missing_sources(self.code)
        if missing:
            self._add_sources(provider.fetch_sources(missing), provider.origin)

    def replace_texts(self, provider: CodeProvider, sources: Sequence[MissingSource]) -> None:
        """Replace the texts of source files by what a provider has."""
        if sources:
            self._add_sources(provider.fetch_sources(sources), provider.origin)

    def remove_texts(self, paths: Sequence[str]) -> None:
        """Remove the texts of source files."""
        removed = {path: AddedText(None, "Its uploaded text was removed.") for path in paths}
        self.code, self.is_changed = add_texts(self.code, removed), True

    def read_again(self, uploads: Mapping[str, Path] | None = None) -> None:
        """Read the code, with received files and uploads (by the name that the user knows). Raises UnreadableInput,
        Unavailable."""
        staged = stage_code(self.result)
        self.staged.append(staged)
        request = CodeRequest(
            str(staged),
            recorded_here=self.recorded_here,
            reads_dumps=self.reads_dumps,
            started=self.started,
            public=bool(self.settings.run_as),
            folders=(str(self.incoming.root), *self.folders),
            lines=str(binary_cache.open_origin(self.settings.data, binary_cache.LINES).root),
            build_ids=self.build_ids,
            uploads={name: str(path) for name, path in uploads.items()} if uploads else None,
            incoming=str(self.incoming.root),
        )
        reading.read_code_to(self.settings, self.result, (), request, lambda part, text: None)
        code = keep_texts(read_code_folder(staged), self.code)
        lost = list_lost_objects(code, self.code)
        if lost:
            raise UnreadableInput(
                f"Lines that are known now would be lost, because these binaries are no longer here: "
                f"{', '.join(lost[:5])}. Upload them together with the others."
            )
        self.code, self.is_changed = code, True

    def keep_received(self, origin: str) -> None:
        """Move the received files that proved good to the cache; the others are removed."""
        folder = binary_cache.open_origin(self.settings.data, origin)
        for row in self.code.objects.to_pylist():
            if row["build_id"] is None or not binary_cache.is_build_id(row["build_id"]):
                continue
            for kind, states in _GOOD.items():
                received = self.incoming.file(row["build_id"], kind)
                if row["status"] in states and received.is_file():
                    folder.add(row["build_id"], kind, received)
        for path in list(self.incoming.root.iterdir()):
            if path.is_dir():
                remove_tree(path)
            else:
                path.unlink()
        if str(folder.root) not in self.folders:
            self.folders = (*self.folders, str(folder.root))

    def publish(self) -> None:
        """Make it the code of the result, if it has changed. Raises Unavailable."""
        if self.is_changed:
            complete = stage_code(self.result)
            self.staged.append(complete)
            write_code(self.code, complete)
            replace_code(complete, self.result)

    def _add_sources(self, fetched: list[FetchedSource], origin: str) -> None:
        folder = binary_cache.open_origin(self.settings.data, origin)
        texts = {}
        for one in fetched:
            for build_id in filter(binary_cache.is_build_id, one.wanted.build_ids):
                folder.add_source(build_id, one.wanted.path, one.content, one.changed)
            texts[one.wanted.path] = AddedText(decode_source(one.content), self._describe_age(one, folder))
        if texts:
            self.code, self.is_changed = add_texts(self.code, texts), True

    def _describe_age(self, source: FetchedSource, folder: BinaryFolder) -> str:
        if source.changed is None:
            return ""
        if self.started is not None and source.changed > self.started:
            return "It was changed after the recording began."
        binaries = [folder.file(build_id, FileKind.EXECUTABLE) for build_id in source.wanted.build_ids]
        built = [path.stat().st_mtime for path in binaries if path.is_file()]
        if built and source.changed > max(built):
            return "It was changed after the program was built."
        return ""


@contextmanager
def open_change(settings: Settings, store: Store, id: str, origins: tuple[str, ...]) -> Iterator[CodeChange]:
    """A change of the code of a result. Only one process changes it at a time. origins: of received files that may be
    used. Raises NotFound if it has no code, Unavailable."""
    result = store.results.path(id)
    with wait_for_lock(
        store.results.code_lock(id),
        LOCK_S,
        "Another process reads, or adds files to, the machine code of this result. Try again later.",
    ):
        code = store.results.open_code(id)
        if code is None:
            raise NotFound(
                f"The machine code of the result {id} is not known, so that nothing can be added to it. Import the "
                "recording again."
            )
        job = store.jobs.find(id)
        change = CodeChange(
            settings=settings,
            result=result,
            profile=store.results.open_once(id),
            code=code,
            build_ids={row["module"]: row["build_id"] for row in code.objects.to_pylist() if row["build_id"]},
            folders=list_folders(settings, origins),
            incoming=binary_cache.open_incoming(settings.data),
            recorded_here=is_recorded_here(job),
            reads_dumps=is_recorded_here(job) or is_by_command(job),
            started=job.started if job is not None and job.kind == "record" else None,
        )
        try:
            yield change
        finally:
            remove_tree(change.incoming.root)
            for staged in change.staged:
                remove_tree(staged)


def list_folders(settings: Settings, origins: tuple[str, ...]) -> tuple[str, ...]:
    """The directories with files of these origins."""
    return tuple(str(binary_cache.open_origin(settings.data, origin).root) for origin in origins)
