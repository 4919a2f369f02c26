#!/bin/sh
# perfloom-wait DIRECTORY PROGRAM ARGUMENT …: write the pid, wait until perf stat observes it, and execute the program. It is
# a file with its own name so that its samples can be distinguished from the program's. Without arguments: exit with 0, to
# test whether it can be executed.
# shellcheck disable=SC2034
[ $# -gt 1 ] || exit 0
if { echo $$ >"$1/.waits"; } 2>/dev/null; then { read -r pl_go <"$1/.go"; } 2>/dev/null; fi
shift
exec "$@"
