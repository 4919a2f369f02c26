# shellcheck shell=sh disable=SC2154
# --batch: TERM only for the batch script, which ends its processes cleanly; Slurm sets no time limit for that. Only for
# running jobs: for a pending one, scancel --batch retries for a minute.

scancel --state=PENDING "$@"
scancel --state=SUSPENDED "$@"
scancel --state=RUNNING --batch --signal=TERM "$@"
