# shellcheck shell=sh disable=SC2034,SC2154
# Explains why ranks that share cores are not bound to them.

[ -z "$pl_unbound" ] || pl_note "$pl_there ranks share the $pl_cores cores that they may use on $pl_host, so Open MPI does not bind them to cores. For one core per rank, request more CPUs or nodes."
