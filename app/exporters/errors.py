"""The errors for exports without samples, which other tools reject."""

from ..domain.errors import InvalidRequest
from ..domain.profile import Profile
from ..domain.selection import Selection


def no_samples_error(profile: Profile, selection: Selection, title: str) -> InvalidRequest:
    """The error for a format that contains only samples, if there are none to write. title: of the format."""
    only = f"the export format {title} contains only samples"
    if not profile.samples.num_rows:
        return InvalidRequest(f"This result has no samples, and {only}. Choose another format, or export its tables.")
    if query := " ".join(f"{word}={value}" for word, value in selection.to_query()):
        left = f"no sample with a call stack matches {query[:200]}"
        return InvalidRequest(f"Nothing is selected: {left}, and {only}. Use fewer filters.")
    return InvalidRequest(f"No sample of the main event has a call stack, and {only}. Choose another event or format.")
