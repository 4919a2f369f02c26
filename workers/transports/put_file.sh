# shellcheck shell=sh
# Writes standard input to the temporary file $1, sets the mode $2, and renames it to $3.

umask 077
if cat >"$1" && chmod "$2" "$1" && mv -f "$1" "$3"; then
    exit 0
fi
rm -f "$1"
exit 1
