# shellcheck shell=sh disable=SC2154
# Runs the script in the variable pl_given.

pl_text=$pl_given
unset pl_given
eval "$pl_text"
