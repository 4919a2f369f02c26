"""What the files of a result say of themselves as JSON objects, beside the events."""

import json
from typing import Any

from ...domain.profile import Profile
from ...readers.formats import PYTORCH_PROFILE, READERS


def is_pytorch_trace(profile: Profile) -> bool:
    """Whether pages use PyTorch's terms: PyTorch made the file, or no reader is known for it, as for merged files of
    several formats."""
    reader = READERS.get(profile.meta.format)
    return reader is None or PYTORCH_PROFILE in reader.capabilities


def json_fact(profile: Profile, word: str) -> dict[str, Any]:
    """The object that stands under `word`; of several files, which are joined, the first one's. Empty where there is
    none, or none that can be understood."""
    try:
        found, _ = json.JSONDecoder().raw_decode(profile.meta.facts.get(word, "{}"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
