#!/bin/sh
# perfloom-wait DIRECTORY PROGRAM ARGUMENT …: say who we are, wait until perf stat observes us, and become the program. It
# has a file and a name of its own so that its samples can be told from the program's. Alone: whether it can be executed.
# shellcheck disable=SC2034
[ $# -gt 1 ] || exit 0
if { echo $$ >"$1/.waits"; } 2>/dev/null; then { read -r pl_go <"$1/.go"; } 2>/dev/null; fi
shift
exec "$@"
