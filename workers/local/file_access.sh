# shellcheck shell=sh
# Prints a line for each argument: e (exists), d (directory), r (readable), x (executable or searchable).

for one in "$@"; do
    s=
    [ -e "$one" ] && s=e
    [ -d "$one" ] && s=${s}d
    [ -r "$one" ] && s=${s}r
    [ -x "$one" ] && s=${s}x
    printf '%s\n' "$s"
done
