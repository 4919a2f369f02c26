"""/results/<id>/source/files: adds binaries, debug files and source files that the Source page lacks."""

from dataclasses import dataclass
from typing import cast

from flask import Blueprint, flash, redirect, request
from werkzeug.wrappers import Response

from ....analysis.core.functions import base_name, function_id, functions_of
from ....analysis.core.memo import memoize
from ....analysis.source.missing_code import MissingObject, MissingSource, list_missing_objects, list_missing_sources
from ....domain.errors import Conflict, InvalidRequest
from ....domain.profile import Profile
from ....domain.schemas.code import Code
from ....domain.targets import LOCAL
from ....domain.units import format_percent
from ....store.code_uploads import AddedFile, sort_added_files, store_texts
from ....store.files.binary_cache import name_upload, request_files
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
    forms; fetch is empty where files can only be uploaded."""

    binaries: tuple[MissingBinary, ...]
    more_binaries: int
    sources: tuple[str, ...]
    more_sources: int
    upload: str
    fetch: str


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
    if not objects and not sources:
        return None
    pairs = list(request.args.items(multi=True))
    return MissingFiles(
        binaries=tuple(map(_describe, objects[:MAX_OBJECTS])),
        more_binaries=max(0, len(objects) - MAX_OBJECTS),
        sources=tuple(one.path for one in sources[:MAX_SOURCES]),
        more_sources=max(0, len(sources) - MAX_SOURCES),
        upload=with_query(f"/results/{result_id}/source/files", pairs),
        fetch=with_query(f"/results/{result_id}/source/fetch", pairs) if _can_fetch(result_id) else "",
    )


def _list(code: Code) -> tuple[MissingSource, ...]:
    """Those source files to which a text can be added."""
    return tuple(one for one in list_missing_sources(code) if one.build_ids)


def _describe(one: MissingObject) -> MissingBinary:
    what = "binary" if one.wants_binary else "debug information"
    return MissingBinary(base_name(one.module), one.module, one.build_id, format_percent(100 * one.share), what)


def _can_fetch(id: str) -> bool:
    here = current_services()
    job = here.store.jobs.find(id)
    is_remote = job is not None and job.kind == "record" and job.target != LOCAL
    return is_remote or bool(here.settings.debuginfod_urls)


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
        binaries, texts = sort_added_files(code, files, request.form.get("source", ""))
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


def _return_to(id: str) -> Response:
    return redirect(with_query(f"/results/{id}/source", list(request.args.items(multi=True))), 303)
