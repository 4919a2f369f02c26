# shellcheck shell=sh
# Prints at most $1 bytes of each of the other arguments that is a readable file: a line with its number, its path without
# links and its content, the last two as hexadecimal digits. Its owner may replace it at any time.

pl_most=$1
shift
pl_number=0
for pl_file in "$@"; do
    pl_number=$((pl_number + 1))
    if [ ! -f "$pl_file" ] || [ ! -r "$pl_file" ]; then continue; fi
    pl_real=$(readlink -f -- "$pl_file") || continue
    printf '%s ' "$pl_number"
    printf '%s' "$pl_real" | od -A n -v -t x1 | tr -d ' \n'
    printf ' '
    head -c "$pl_most" -- "$pl_real" | od -A n -v -t x1 | tr -d ' \n'
    printf '\n'
done
exit 0
