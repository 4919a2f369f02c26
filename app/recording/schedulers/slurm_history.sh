# shellcheck shell=sh disable=SC2154
# Queries accounting, the controller, and the list of completed jobs: a cluster may have any of them or none.

sacct --noheader --parsable2 --allocations --jobs="$1" --format=State,ExitCode,NodeList 2>/dev/null |
    sed 's/^/sacct|/' | grep . && exit
scontrol --oneliner show job "$1" 2>/dev/null | grep . && exit
sacct --completion --noheader --parsable2 --jobs="$1" --format=state 2>/dev/null | sed 's/^/sacct|/' | grep . && exit
squeue --version >/dev/null
