# shellcheck shell=sh

bkill "$@"
