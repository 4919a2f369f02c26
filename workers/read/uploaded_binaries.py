"""Checks uploaded binaries: only those of a recording are accepted, by build id. In the restricted child."""

from collections.abc import Mapping
from pathlib import Path

from perfloom.domain.errors import UnreadableInput
from perfloom.domain.text import sanitize_line
from perfloom.ingest.machine_code.elf import is_same_build
from perfloom.ingest.machine_code.elf_image import SHF_EXECINSTR, SHT_PROGBITS, ElfImage
from perfloom.store.files.binary_cache import BinaryFolder, FileKind, is_build_id

MAX_LISTED = 5
_AGAIN = "Upload the very file that was recorded, or the debug file of the same build."


def sort_uploads(uploads: Mapping[str, str], build_ids: Mapping[str, str], incoming: BinaryFolder) -> None:
    """Move the files `uploads` (name for the user → path) to their places by build id. build_ids: of the recording, by
    path. Raises UnreadableInput if one is no binary or debug file of the recording."""
    for name, path in uploads.items():
        name = sanitize_line(name)[:100]
        found, kind = _inspect(path, name)
        recorded = next((one for one in build_ids.values() if is_same_build(found, one)), None)
        if recorded is None:
            raise UnreadableInput(_explain_other_build(name, found, build_ids))
        if not is_build_id(recorded):
            raise UnreadableInput(f"{name} has a build id of another length than those of compilers. {_AGAIN}")
        incoming.add(recorded, kind, Path(path))


def _inspect(path: str, name: str) -> tuple[str, FileKind]:
    """(build id, what it is) of an ELF file."""
    try:
        with open(path, "rb") as stream:
            image = ElfImage.read(stream)
            build_id = image.build_id
            kind = FileKind.EXECUTABLE if _has_code(image) else FileKind.DEBUG
    except (UnreadableInput, OSError):
        raise UnreadableInput(f"{name} is not a valid ELF file. {_AGAIN}") from None
    if not build_id:
        raise UnreadableInput(
            f"{name} has no build id, so that it cannot be compared with the recording. Link the program with "
            "-Wl,--build-id, and record it again."
        )
    return build_id, kind


def _has_code(image: ElfImage) -> bool:
    """Whether it contains machine code: in a debug file, the sections of code have no content."""
    return any(section.type == SHT_PROGBITS and section.flags & SHF_EXECINSTR for section in image.sections)


def _explain_other_build(name: str, build_id: str, build_ids: Mapping[str, str]) -> str:
    base = name.rpartition("/")[2].removesuffix(".debug")
    same_name = [one for path, one in build_ids.items() if path.rpartition("/")[2] == base]
    if same_name:
        return (
            f"{name} was built another time than the recorded file: its build id is {build_id}, and that of the "
            f"recording is {same_name[0]}. {_AGAIN}"
        )
    listed = [f"{path.rpartition('/')[2]} ({one})" for path, one in build_ids.items() if path.startswith("/")]
    more = f" and {len(listed) - MAX_LISTED:,} more" if len(listed) > MAX_LISTED else ""
    known = (
        f"The recording has {', '.join(listed[:MAX_LISTED])}{more}." if listed else "The recording has no build ids."
    )
    return f"No binary of the recording has the build id of {name}, which is {build_id}. {known} {_AGAIN}"
