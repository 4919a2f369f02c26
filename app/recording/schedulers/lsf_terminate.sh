# shellcheck shell=sh disable=SC2154
# A signal other than the usual does nothing for jobs that wait. TERM goes to every process of a job.

for id in $(bjobs -noheader -o "jobid stat delimiter='^'" "$@" 2>/dev/null | sed -n 's/^\([0-9]*\)^P[ES].*/\1/p'); do
    bkill "$id"
done
bkill -s TERM "$@"
