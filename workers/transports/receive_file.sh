# shellcheck shell=sh disable=SC2154
# Writes standard input to the file pl_file in pl_folder with the mode pl_mode, by way of its partial copy pl_partial.
# If the connection breaks, cat sees the end of its input: pl_size tells whether that was all.

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
trap 'rm -f -- "$pl_partial"; exit 1' HUP INT TERM
if cat >"$pl_partial" && [ "$(wc -c <"$pl_partial")" -eq "$pl_size" ] &&
    chmod "$pl_mode" "$pl_partial" && mv -f -- "$pl_partial" "$pl_file"; then
    exit 0
fi
rm -f -- "$pl_partial"
exit 1
