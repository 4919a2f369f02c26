# shellcheck shell=sh disable=SC2034,SC2154
# Proxies that a batch system's launcher starts connect to mpiexec by the name of its host.

[ -z "$pl_by_name" ] || pl_find_own_name
