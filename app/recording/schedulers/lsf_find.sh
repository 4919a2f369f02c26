# shellcheck shell=sh

bjobs -a -noheader -J "$1" -o "jobid stat delimiter='^'"
