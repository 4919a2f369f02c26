# shellcheck shell=sh disable=SC2154
# pl_wait_for FILE: whether the file has something in it, now or after pl_tries naps. Stands before start.sh and submit.sh.

pl_wait_for() {
    while [ ! -s "$1" ] && [ "$pl_tries" -gt 0 ]; do
        pl_tries=$((pl_tries - 1))
        pl_nap
    done
    [ -s "$1" ]
}
