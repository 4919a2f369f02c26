# shellcheck shell=sh disable=SC2034,SC2154
# The number of nodes of a job of Slurm.

pl_nodes=${SLURM_JOB_NUM_NODES-}
pl_by_name=1
