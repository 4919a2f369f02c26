# shellcheck shell=sh disable=SC2154
# bkill -s has no effect on pending jobs, so they are removed first. TERM is sent to every process of a job.

for id in $(bjobs -noheader -o "jobid stat delimiter='^'" "$@" 2>/dev/null | sed -n 's/^\([0-9]*\)^P[ES].*/\1/p'); do
    bkill "$id"
done
bkill -s TERM "$@"
