# shellcheck shell=sh
# Creates links. Arguments: the target and the path of each.

while [ $# -gt 0 ]; do
    ln -sfn -- "$1" "$2" || exit
    shift 2
done
