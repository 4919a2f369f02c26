# shellcheck shell=sh

bhist -l -n 2 "$1"
