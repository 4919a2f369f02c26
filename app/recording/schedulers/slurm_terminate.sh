# shellcheck shell=sh disable=SC2154
# --batch: TERM for the batch script alone, which ends what it has started in good order; Slurm sets no limit to that.
# It is for running jobs only: for one that waits, scancel --batch tries again and again for a minute.

scancel --state=PENDING "$@"
scancel --state=SUSPENDED "$@"
scancel --state=RUNNING --batch --signal=TERM "$@"
