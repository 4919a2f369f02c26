"""What the files of a result say of themselves as JSON objects, beside the events."""

import json
from typing import Any

from ..domain.profile import Profile


def told(profile: Profile, word: str) -> dict[str, Any]:
    """The object that stands under `word`; of several files, which are joined, the first one's. Empty where there is
    none, or none that can be understood."""
    try:
        found, _ = json.JSONDecoder().raw_decode(profile.meta.facts.get(word, "{}"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
