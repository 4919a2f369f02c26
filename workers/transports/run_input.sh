# shellcheck shell=sh
# Runs the script in the first $1 bytes of standard input; the rest is its input.

cd 2>/dev/null || :
pl_text=$(dd bs=1 count="$1" 2>/dev/null)
shift
eval "$pl_text"
