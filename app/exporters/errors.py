"""What is said where a file without samples would be one that other tools refuse."""

from ..domain.errors import InvalidRequest
from ..domain.profile import Profile
from ..domain.selection import Selection


def no_samples_error(profile: Profile, selection: Selection, title: str) -> InvalidRequest:
    """The error for a form that holds nothing but samples, where there are none to write. title: of the form."""
    only = f"a file of {title} holds nothing else"
    if not profile.samples.num_rows:
        return InvalidRequest(f"This result has no samples, and {only}. Choose another form, or export its tables.")
    if words := " ".join(f"{word}={value}" for word, value in selection.to_query()):
        left = f"no sample with a call stack is left by {words[:200]}"
        return InvalidRequest(f"Nothing is selected: {left}, and {only}. Choose less narrowly.")
    return InvalidRequest(
        f"No sample of the main event has a call stack, and {only}. Choose another event or another form."
    )
