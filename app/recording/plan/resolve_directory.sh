# shellcheck shell=sh disable=SC2154
# Creates the job directory pl_base of a target, and prints the absolute path of the directory of the job pl_id in it.

mkdir -p "$pl_base" && cd "$pl_base" || exit 1
printf '%s/%s\n' "$(pwd -P)" "$pl_id"
