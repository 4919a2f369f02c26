# shellcheck shell=sh disable=SC2154
# Terminates the process group of pl_pid, and kills it after pl_wait_s seconds.
# Without "--" before the group: dash and busybox do not accept it here.

kill -TERM "-$pl_pid" 2>/dev/null || kill -TERM "$pl_pid" 2>/dev/null || exit 0
while [ "$pl_wait_s" -gt 0 ]; do
    sleep 1
    kill -0 "-$pl_pid" 2>/dev/null || kill -0 "$pl_pid" 2>/dev/null || exit 0
    pl_wait_s=$((pl_wait_s - 1))
done
kill -KILL "-$pl_pid" 2>/dev/null || kill -KILL "$pl_pid" 2>/dev/null
:
