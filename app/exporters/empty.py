"""What is said where a file without samples would be one that other tools refuse."""

from ..domain.errors import InvalidRequest
from ..domain.profile import Profile
from ..domain.selection import Selection


def no_samples(profile: Profile, selection: Selection, title: str) -> InvalidRequest:
    """The error for a form that holds nothing but samples, where there are none to write. title: of the form."""
    if not profile.samples.num_rows:
        return InvalidRequest(
            f"This result has no samples, and a file of {title} holds nothing else. Choose another form, or export its tables."
        )
    words = " ".join(f"{word}={value}" for word, value in selection.to_query())
    if words:
        return InvalidRequest(
            f"Nothing is selected: no sample with a call stack is left by {words[:200]}, and a file of {title} holds nothing "
            "else. Choose less narrowly."
        )
    return InvalidRequest(
        f"No sample of the main event has a call stack, and a file of {title} holds nothing else. Choose another event or form."
    )
