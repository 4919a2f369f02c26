# shellcheck shell=sh disable=SC2154
# Writes standard input to the temporary file pl_partial, sets the mode pl_mode, and renames it to pl_file in pl_folder.
# If the connection breaks, cat gets the end of file: pl_size shows whether the file is complete.

LC_ALL=C
export LC_ALL
umask 077
if [ ! -d "$pl_folder" ]; then
    echo "No such file or directory" >&2
    exit 1
fi
if [ -d "$pl_file" ]; then
    echo "Is a directory" >&2
    exit 1
fi
# PIPE: once the connection has closed, the shell cannot print its errors.
trap 'rm -f -- "$pl_partial"; exit 1' HUP INT PIPE TERM
if cat >"$pl_partial" && [ "$(wc -c <"$pl_partial")" -eq "$pl_size" ] &&
    chmod "$pl_mode" "$pl_partial" && mv -f -- "$pl_partial" "$pl_file"; then
    exit 0
fi
rm -f -- "$pl_partial"
exit 1
