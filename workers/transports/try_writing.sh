# shellcheck shell=sh disable=SC2154
# Prints why $file cannot be written. 1 MiB: a full disk may still take an empty file.

LC_ALL=C
export LC_ALL
# shellcheck disable=SC2069
dd if=/dev/zero of="$file" bs=65536 count=16 2>&1 >/dev/null
status=$?
rm -f -- "$file"
exit "$status"
