# shellcheck shell=sh disable=SC2034,SC2154
# Converts recordings to text that their ranks did not convert, for at most pl_most seconds.

# shellcheck source=/dev/null
. ./common.sh && . ./plan.sh || exit 1
pl_find_host
pl_now
pl_until=$((${pl_time%?????????} + pl_most))
pl_read_rest '*' '' || echo more
