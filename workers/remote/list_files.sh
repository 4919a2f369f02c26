# shellcheck shell=sh
# Prints number, size and time of the last change of those of the arguments that are readable files. 0: time unknown.

pl_number=0
for pl_file in "$@"; do
    pl_number=$((pl_number + 1))
    if [ ! -f "$pl_file" ] || [ ! -r "$pl_file" ]; then continue; fi
    pl_size=$(wc -c <"$pl_file") || continue
    pl_changed=$(stat -L -c %Y -- "$pl_file" 2>/dev/null) || pl_changed=0
    printf '%s %s %s\n' "$pl_number" "$((pl_size))" "${pl_changed:-0}"
done
exit 0
