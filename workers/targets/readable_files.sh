# shellcheck shell=sh
# Prints those of the arguments that are readable files.

for one in "$@"; do
    [ -r "$one" ] && printf '%s\n' "$one"
done
exit 0
