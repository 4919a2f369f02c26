"""Metadata that the files of a result contain as JSON objects, in addition to events."""

import json
from typing import Any

from ...domain.meta import PYTORCH_PROFILE
from ...domain.profile import Profile


def has_pytorch_terms(profile: Profile) -> bool:
    """Whether PyTorch made the file, or one of several merged files. Pages then use its terms."""
    return PYTORCH_PROFILE in profile.meta.capabilities


def json_fact(profile: Profile, word: str) -> dict[str, Any]:
    """The object under the key `word`; for a merge of several files, that of the first. Empty if it is
    missing or not a JSON object."""
    try:
        found, _ = json.JSONDecoder().raw_decode(profile.meta.facts.get(word, "{}"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
