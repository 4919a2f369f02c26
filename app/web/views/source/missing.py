"""/results/<id>/source/files: adds binaries, debug files and source files that the Source page lacks."""

from dataclasses import dataclass
from typing import cast

from flask import Blueprint, flash, jsonify, redirect, request
from werkzeug.wrappers import Response

from ....analysis.core.functions import base_name, function_id, functions_of
from ....analysis.core.memo import memoize
from ....analysis.source.missing_code import (
    MissingObject,
    MissingSource,
    list_known_sources,
    list_missing_objects,
    list_missing_sources,
)
from ....domain.errors import Conflict, InvalidRequest
from ....domain.profile import Profile
from ....domain.schemas.code import Code
from ....domain.units import format_percent
from ....store.code_uploads import (
    AddedFile,
    list_uploaded_texts,
    list_used_texts,
    remove_text,
    sort_added_files,
    store_texts,
)
from ....store.files.binary_cache import is_requested, name_upload, request_files
from ....store.files.code_folder import MIN_SAMPLES
from ....store.files.disk import safe_name
from ...pages import with_query
from ...services import current_services
from ...uploads import Upload, accepts_files, received_files

blueprint = Blueprint("source files", __name__)
MAX_OBJECTS = 20
MAX_SOURCES = 200
NO_CODE = (
    "The machine code of this result is not known, so that nothing can be added to it. Import the recording again."
)


@dataclass(frozen=True)
class MissingBinary:
    """A binary of which a file is missing. share: of the samples. what: is missing."""

    name: str
    path: str
    build_id: str
    share: str
    what: str


@dataclass(frozen=True)
class MissingFiles:
    """What the page lacks. more_binaries, more_sources: how many are not listed. upload, fetch: the addresses of the
    forms; fetch is empty where files can only be uploaded. added: source files whose text was uploaded."""

    binaries: tuple[MissingBinary, ...]
    more_binaries: int
    sources: tuple[str, ...]
    more_sources: int
    upload: str
    fetch: str
    added: tuple[str, ...]
    remove: str


def find_missing_files(
    result_id: str, profile: Profile, code: Code | None, asked: int | str | None
) -> MissingFiles | None:
    """What is missing for a result, or for a function of it; None for nothing."""
    if code is None:
        return None
    objects, sources = memoize(
        profile, ("missing code", code), lambda: (list_missing_objects(profile, code), _list(code))
    )
    if asked is not None:
        functions = functions_of(profile)
        modules = {functions.module_of(row) for row in function_id(profile, asked).tolist()}
        objects = tuple(one for one in objects if one.module in modules)
        build_ids = {row["build_id"] for row in code.objects.to_pylist() if row["module"] in modules}
        sources = tuple(one for one in sources if build_ids.intersection(one.build_ids))
    added = _list_added(code)
    if not objects and not sources and not added:
        return None
    pairs = list(request.args.items(multi=True))
    return MissingFiles(
        binaries=tuple(map(_describe, objects[:MAX_OBJECTS])),
        more_binaries=max(0, len(objects) - MAX_OBJECTS),
        sources=tuple(one.path for one in sources[:MAX_SOURCES]),
        more_sources=max(0, len(sources) - MAX_SOURCES),
        upload=with_query(f"/results/{result_id}/source/files", pairs),
        fetch=with_query(f"/results/{result_id}/source/fetch", pairs)
        if (objects or sources) and _can_fetch(result_id)
        else "",
        added=tuple(one.path for one in added[:MAX_SOURCES]),
        remove=with_query(f"/results/{result_id}/source/remove", pairs),
    )


def find_repeat_address(result_id: str, profile: Profile, code: Code | None) -> str:
    """The address of the form that reads the machine code of a result that has none; empty if that cannot help."""
    is_long = profile.samples.num_rows >= MIN_SAMPLES and profile.meta.format.startswith("perf")
    has_failed = current_services().store.results.explain_missing_code(result_id) != ""
    if code is not None or not (is_long or has_failed):
        return ""
    return with_query(f"/results/{result_id}/source/read", list(request.args.items(multi=True)))


def is_waiting(result_id: str) -> bool:
    """Whether a process reads or changes the machine code of a result, or has been asked to."""
    results = current_services().store.results
    return results.is_code_expected(result_id) or is_requested(results.data, result_id)


def _list(code: Code) -> tuple[MissingSource, ...]:
    """Those source files to which a text can be added."""
    return tuple(one for one in list_missing_sources(code) if one.build_ids)


def _list_added(code: Code) -> tuple[MissingSource, ...]:
    return list_used_texts(current_services().settings.data, code)


def _describe(one: MissingObject) -> MissingBinary:
    what = "binary" if one.wants_binary else "debug information"
    return MissingBinary(base_name(one.module), one.module, one.build_id, format_percent(100 * one.share), what)


def _can_fetch(id: str) -> bool:
    here = current_services()
    job = here.store.jobs.find(id)
    return (job is not None and job.is_from_elsewhere) or bool(here.settings.debuginfod_urls)


@blueprint.post("/results/<id>/source/files")
@accepts_files
def add(id: str) -> Response:
    """Add files (field `file`, several) to the machine code of a result, and return to its Source page, whose query is
    that of the address. source: the source file of which the only text is; by default it is found by name."""
    here = current_services()
    code = here.store.results.open_code(id)
    if code is None:
        raise Conflict(NO_CODE)
    try:
        received = received_files("file")
        uploads = [cast(Upload, file.stream) for file in received]
        for upload in uploads:
            upload.flush()
        files = [AddedFile(file.filename or "", upload.path) for file, upload in zip(received, uploads, strict=True)]
        replaceable = list_uploaded_texts(here.settings.data, list_known_sources(code))
        binaries, texts = sort_added_files(code, files, request.form.get("source", ""), replaceable)
    except InvalidRequest as error:
        flash(error.message, "bad")
        return _return_to(id)
    store_texts(here.settings.data, texts)
    folder = request_files(here.settings.data, id, texts=bool(texts))
    names: set[str] = set()
    for file, upload in zip(files, uploads, strict=True):
        if file in binaries:
            name = safe_name(file.name, names)
            names.add(name)
            upload.save_as(folder / name_upload(name))
    here.queue.enqueue_code(id)
    return _return_to(id)


@blueprint.post("/results/<id>/source/fetch")
def fetch(id: str) -> Response:
    """Fetch again what is missing, from the host that recorded or servers of debuginfod."""
    here = current_services()
    if here.store.results.open_code(id) is None:
        raise Conflict(NO_CODE)
    request_files(here.settings.data, id, fetch=True)
    here.queue.enqueue_code(id)
    return _return_to(id)


@blueprint.post("/results/<id>/source/remove")
def remove(id: str) -> Response:
    """Remove the uploaded text of a source file (field `source`: its path)."""
    here = current_services()
    code, path = here.store.results.open_code(id), request.form.get("source", "")
    if code is None:
        raise Conflict(NO_CODE)
    try:
        remove_text(here.settings.data, code, path)
    except InvalidRequest as error:
        flash(error.message, "bad")
        return _return_to(id)
    request_files(here.settings.data, id, removed=path)
    here.queue.enqueue_code(id)
    return _return_to(id)


@blueprint.post("/results/<id>/source/read")
def read(id: str) -> Response:
    """Read the machine code of a result that has none, from its stored files."""
    here = current_services()
    if here.store.results.open_code(id) is None:
        request_files(here.settings.data, id, read=True)
        here.queue.enqueue_code(id)
    return _return_to(id)


@blueprint.get("/results/<id>/source/waiting")
def waiting(id: str) -> Response:
    """Whether the machine code of a result is being read or changed, for a page that waits for it."""
    current_services().store.results.get(id)
    return jsonify(waiting=is_waiting(id))


def _return_to(id: str) -> Response:
    return redirect(with_query(f"/results/{id}/source", list(request.args.items(multi=True))), 303)
