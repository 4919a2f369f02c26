"""An estimate of how long a mangled C++ name becomes.

A mangled name refers to its earlier parts (`S_`, `S0_`, …) and to its template arguments (`T_`, `T0_`, …), so that its
readable form may grow exponentially: one of 256 characters becomes 109 MB. __cxa_demangle has no limit.
"""

import re

# In "aSS_", the first S belongs to an operator.
_REFERENCE = re.compile(r"(?<![alr])S([0-9A-Z]*)_|(S[0-9A-Z]*_|D[pP]|sp)|(T[0-9]*_)|([0-9]+)")


def estimate_length(name: str, limit: int) -> int:
    """The length of a mangled C++ name without references. Stops counting when it is certainly below or above `limit`.

    A reference may be as long as everything before the part to which it refers. References in identifiers count too.
    The readable form has up to 40 times as many characters. It is no strict maximum: nested pack expansions may be
    longer.
    """
    # Each reference at most doubles the length.
    most = len(name) << name.count("_") + name.count("Dp") + name.count("DP") + name.count("sp")
    if most <= limit:
        return most
    length = position = identifier_end = arguments = 0
    # (index of a part, length of everything before it was first used); later uses of it or of earlier parts add that.
    known: list[tuple[int, int]] = []
    for match in _REFERENCE.finditer(name):
        if "E" in name[position : match.start()]:
            arguments = length + match.start() - position
        length += match.end() - position
        position = match.end()
        index, other, argument, number = match.groups()
        if number:
            # A longer one is no length of an identifier.
            end = position + int(number[:6])
            identifier_end = max(identifier_end, end if end <= len(name) else 0)
        elif argument:
            length += arguments
        elif other:
            length += length
        else:
            part = int(index, 36) + 1 if index else 0
            added = next((before for last, before in known if last >= part), length)
            # In an identifier, it is no reference, and does not prove that this part is complete.
            if added == length and match.start() >= identifier_end:
                known.append((part, length))
            length += added
        if length > limit:
            break
    return length + len(name) - position
