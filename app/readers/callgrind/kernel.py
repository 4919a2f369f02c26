"""The lines of a callgrind file, parsed by compiled loops: costs summed by function and call, names by id.

Other lines than costs, positions and associations (header lines, and unknown ones) are returned line by line. Format:
valgrind.org/docs/manual/cl-format.html.
"""

from ...domain.arrays import Array
from ...ingest.jit.decorators import jit
from ...ingest.trace_json.string_table import StringTable, intern

DONE, FULL, OTHER = 0, 1, 2
"""Why a scan ended: it reached `stop`; no more room; a line that the caller parses."""

# Kinds of names, each with its own ids.
FILES, FUNCTIONS, OBJECTS = 0, 1, 2
# Indices into `state`. PRESENT, CALLED: of the present position and of the next call, one entry per kind of name.
AT, END, LINES, POSITIONS, EVENTS, LINE_PLACE, ROWS, SELF_ROW, PENDING, COUNT, TARGET = range(11)
PRESENT, FUNCTION_FILE, FUNCTION_OBJECT, CALLED, POSITION = 11, 14, 15, 16, 19
NEGATIVE, NEGATIVE_LINE, UNDEFINED, UNDEFINED_LINE, TOO_MANY = range(23, 28)
STATE = 28
MAX_POSITIONS = 4
"""The maximum number of positions of a line, at POSITION."""

# What the next line of costs belongs to, if not to the function.
NOTHING, CALL, JUMP = 0, 1, 2
# Columns of a row: a function's own costs (count NO_CALL) or those of calls from it.
ROW = ("function", "file", "object", "called", "called_file", "called_object", "count", "target")
NO_CALL = -1
MAX_DIGITS = 18
MAX_COST = 1 << 62
MAX_NAMES = (1 << 21) - 2


@jit
def _parse_number(data: Array, p: int) -> tuple[int, int]:
    """(the number that begins at p, its end; p itself if there is none in range)."""
    value, begin = 0, p
    if data[p] == 48 and (data[p + 1] | 32) == 120:
        p += 2
        while True:
            byte = int(data[p])
            byte = byte | 32 if byte > 57 else byte
            digit = byte - 48 if 48 <= byte <= 57 else byte - 87 if 97 <= byte <= 102 else -1
            if digit < 0:
                break
            value = (value << 4) + digit
            p += 1
        return (value, p) if begin + 2 < p <= begin + 18 else (0, begin)
    while 48 <= data[p] <= 57:
        value = value * 10 + (int(data[p]) - 48)
        p += 1
    return (value, p) if p - begin <= MAX_DIGITS else (0, begin)


@jit
def _skip_blank(data: Array, p: int) -> int:
    while data[p] == 32 or data[p] == 9:
        p += 1
    return p


@jit
def _parse_position(data: Array, p: int, before: int) -> tuple[int, int]:
    """(a subposition, its end; p itself if there is none)."""
    if data[p] == 42:
        return before, p + 1
    if data[p] == 43 or data[p] == 45:
        value, end = _parse_number(data, p + 1)
        if end == p + 1:
            return 0, p
        return (before + value if data[p] == 43 else before - value), end
    value, end = _parse_number(data, p)
    return value, end


@jit
def _name(data: Array, p: int, end: int, kind: int, state: Array, ids: Array, names: StringTable, at: Array) -> int:
    """The number of the name data[p:end]; -1 for an id without a name, -2 for one that is too large."""
    p = _skip_blank(data, p)
    number = -1
    if data[p] == 40 and 48 <= data[p + 1] <= 57:
        value, q = _parse_number(data, p + 1)
        if data[q] == 41:
            q = _skip_blank(data, q + 1)
            if value >= ids.shape[1]:
                return -2
            if q >= end:
                if ids[kind, value] == 0:
                    state[UNDEFINED] += 1
                    if state[UNDEFINED] == 1:
                        state[UNDEFINED_LINE] = state[LINES]
                return int(ids[kind, value]) - 1
            p, number = q, value
    code = intern(data, p, max(end - p, 0), 0, names, at)
    if code >= MAX_NAMES:
        state[TOO_MANY] += 1
        code = -1
    if number >= 0:
        ids[kind, number] = code + 1
    return int(code)


@jit
def _parse_costs(data: Array, p: int, end: int, state: Array, work: Array) -> bool:
    """Write the costs of the line at p into `work`; whether it is a line of costs."""
    n = 0
    while True:
        p = _skip_blank(data, p)
        if p >= end:
            break
        if n == state[EVENTS]:
            return False
        negative = data[p] == 45
        if negative:
            p += 1
        if data[p] == 46 and (p + 1 == end or data[p + 1] == 32):
            value, q = 0, p + 1
        else:
            value, q = _parse_number(data, p)
        if q == p or (q < end and data[q] != 32 and data[q] != 9) or value < 0:
            return False
        if negative and value:
            state[NEGATIVE] += 1
            if state[NEGATIVE] == 1:
                state[NEGATIVE_LINE] = state[LINES]
            value = 0
        work[n] = value
        n += 1
        p = q
    work[n : state[EVENTS]] = 0
    return True


@jit
def _add(row: int, state: Array, costs: Array, work: Array) -> bool:
    """Add `work` to a row; False, without adding, if the sum would overflow."""
    for n in range(state[EVENTS]):
        if costs[row, n] + work[n] >= MAX_COST:
            return False
    for n in range(state[EVENTS]):
        costs[row, n] += work[n]
    return True


@jit
def _add_row(state: Array, rows: Array, costs: Array, call: bool) -> int:
    row = int(state[ROWS])
    state[ROWS] += 1
    rows[row, 0] = state[PRESENT + FUNCTIONS]
    rows[row, 1], rows[row, 2] = state[FUNCTION_FILE], state[FUNCTION_OBJECT]
    rows[row, 3:6] = -1
    rows[row, 6], rows[row, 7] = NO_CALL, 0
    if call:
        # Without an explicit file and object, the called function is in the present ones.
        for column, kind in ((3, FUNCTIONS), (4, FILES), (5, OBJECTS)):
            called = state[CALLED + kind]
            rows[row, column] = state[PRESENT + kind] if called < 0 and kind != FUNCTIONS else called
        rows[row, 6], rows[row, 7] = state[COUNT], state[TARGET]
        state[CALLED : CALLED + 3] = -1
    costs[row, :] = 0
    return row


@jit
def _parse_cost_line(data: Array, p: int, end: int, state: Array, rows: Array, costs: Array, work: Array) -> bool:
    """Parse a line of positions and costs; False if it is none."""
    if state[EVENTS] == 0:
        return False
    for n in range(state[POSITIONS]):
        value, q = _parse_position(data, p, state[POSITION + n])
        if q == p or (q < end and data[q] != 32 and data[q] != 9):
            return False
        work[n] = value
        p = _skip_blank(data, q)
    for n in range(state[POSITIONS]):
        state[POSITION + n] = work[n]
    pending = state[PENDING]
    state[PENDING] = NOTHING
    if pending == JUMP:
        return True
    good = _parse_costs(data, p, end, state, work)
    if pending == CALL:
        if not good:
            state[CALLED : CALLED + 3] = -1
            return False
        return _add(_add_row(state, rows, costs, True), state, costs, work)
    if not good:
        return False
    if state[SELF_ROW] < 0:
        state[SELF_ROW] = _add_row(state, rows, costs, False)
    return _add(state[SELF_ROW], state, costs, work)


@jit
def _parse_call_line(data: Array, p: int, state: Array) -> bool:
    """Parse the text after "calls="; False if it is no number."""
    p = _skip_blank(data, p)
    count, q = _parse_number(data, p)
    if q == p:
        return False
    state[PENDING], state[COUNT], state[TARGET] = CALL, count, 0
    for n in range(state[POSITIONS]):
        p = _skip_blank(data, q)
        value, q = _parse_position(data, p, state[POSITION + n])
        if q == p:
            break
        if n == state[LINE_PLACE]:
            state[TARGET] = value
    return True


@jit
def scan(
    data: Array,
    stop: int,
    state: Array,
    ids: Array,
    names: StringTable,
    at: Array,
    rows: Array,
    costs: Array,
    work: Array,
) -> int:
    """Parse the complete lines of data[state[AT]:stop]; returns why it ended.

    data: uint8, with a newline before `stop` and PAD more bytes after it. ids: by kind and id the number of a name in
    `names` plus one, 0 for none. at: as in StringTable. rows, costs: see ROW. work: one number per event, and at least
    three. At OTHER, the line is data[state[AT]:state[END]], which the caller must skip; at FULL it must be parsed
    again.
    """
    while state[AT] < stop:
        begin = state[AT]
        end = begin
        while data[end] != 10:
            end += 1
        state[END] = end
        if state[ROWS] >= rows.shape[0] or at[2] + 1 > len(names.start) or at[3] + end - begin + 256 > len(names.text):
            return FULL
        state[LINES] += 1
        while end > begin and (data[end - 1] == 13 or data[end - 1] == 32 or data[end - 1] == 9):
            end -= 1
        p = _skip_blank(data, begin)
        first = data[p]
        if p >= end or first == 35:
            state[AT] = state[END] + 1
            continue
        if 48 <= first <= 57 or first == 43 or first == 45 or first == 42:
            if not _parse_cost_line(data, p, end, state, rows, costs, work):
                return OTHER
            state[AT] = state[END] + 1
            continue
        # The letters f and n of fn=, cfn= and jfn=; all kinds of names work alike.
        of_other = first == 99 or first == 106
        one, two, equal = data[p + of_other], data[p + of_other + 1], data[p + of_other + 2]
        file = one == 102 and (two == 108 or two == 105 or (two == 101 and not of_other))
        function, object = one == 102 and two == 110, one == 111 and two == 98
        if equal == 61 and (file or function or object):
            kind = FUNCTIONS if function else OBJECTS if object else FILES
            code = _name(data, p + of_other + 3, end, kind, state, ids, names, at)
            if code == -2:
                return OTHER
            if first == 99:
                state[CALLED + kind] = code
            elif first != 106:
                state[PRESENT + kind] = code
                if function:
                    state[FUNCTION_FILE], state[FUNCTION_OBJECT] = state[PRESENT + FILES], state[PRESENT + OBJECTS]
                    state[SELF_ROW], state[PENDING] = -1, NOTHING
            # Targets of jumps are ignored, but a jump may define a name.
        elif first == 99 and one == 97 and two == 108 and data[p + 3] == 108 and data[p + 5] == 61:
            if not _parse_call_line(data, p + 6, state):
                return OTHER
        elif first == 106 and data[p + 4] == 61 and (one == 117 or one == 99):
            state[PENDING] = JUMP
        else:
            return OTHER
        state[AT] = state[END] + 1
    return DONE
