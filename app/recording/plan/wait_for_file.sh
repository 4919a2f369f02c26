# shellcheck shell=sh disable=SC2154
# pl_wait_for FILE: wait until the file is not empty, for at most pl_tries naps. Precedes start.sh and submit.sh.

pl_wait_for() {
    while [ ! -s "$1" ] && [ "$pl_tries" -gt 0 ]; do
        pl_tries=$((pl_tries - 1))
        pl_nap
    done
    [ -s "$1" ]
}
