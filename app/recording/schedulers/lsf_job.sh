# shellcheck shell=sh disable=SC2034,SC2154
# The hosts of a job of LSF, and whether blaunch can start programs there.

[ ! -s "${LSB_DJOB_HOSTFILE-}" ] || pl_hostfile=$LSB_DJOB_HOSTFILE
! command -v blaunch >/dev/null 2>&1 || pl_blaunch=1
pl_nodes=1
[ -z "$pl_hostfile" ] || pl_nodes=$(sort -u "$pl_hostfile" | grep -c .)
