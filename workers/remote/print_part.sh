# shellcheck shell=sh
# Prints at most $3 bytes of the file $1 from byte $2 on, where the first byte is 1. It may be replaced at any time.

[ -f "$1" ] || exit 1
tail -c "+$2" -- "$1" | head -c "$3"
