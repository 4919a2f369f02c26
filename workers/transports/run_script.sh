# shellcheck shell=sh
# Reads a marker and the length of a script, then the script, prints the marker and runs the script. sh, csh and fish must
# parse it alike, so it has no single quotes, backslashes and exclamation marks, and its lines are joined. dd: for hosts
# whose head has no -c.

IFS=" " read -r mark bytes &&
    script=$(head -c "$bytes" 2>/dev/null || dd bs=1 count="$bytes" 2>/dev/null) &&
    echo && echo "$mark $$" && echo >&2 && echo "$mark" >&2 && unset mark bytes && eval "$script"
