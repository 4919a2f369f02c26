# shellcheck shell=sh disable=SC2154

ids=$(squeue --noheader --states=all --name="$1" --format=%i) || exit
[ -n "$ids" ] ||
    ids=$(sacct --noheader --parsable2 --allocations --starttime=now-3days --name="$1" --format=JobID 2>/dev/null)
printf '%s\nend\n' "$ids"
