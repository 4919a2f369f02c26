"""What the files of a result say of themselves as JSON objects, beside the events."""

import json
from typing import Any

from ...domain.profile import Profile
from ...readers import READERS

PYTORCH = "pytorch"
"""What the names of PyTorch's formats begin with."""


def is_pytorch_trace(profile: Profile) -> bool:
    """Whether PyTorch's profiler made the trace, and not something that asks for other words."""
    name = profile.meta.format
    return name.startswith(PYTORCH) or name not in READERS


def json_fact(profile: Profile, word: str) -> dict[str, Any]:
    """The object that stands under `word`; of several files, which are joined, the first one's. Empty where there is
    none, or none that can be understood."""
    try:
        found, _ = json.JSONDecoder().raw_decode(profile.meta.facts.get(word, "{}"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
