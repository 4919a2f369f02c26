# shellcheck shell=sh
# Runs probe.sh of the directory $1 on the compute node; exits with $2 if the directory does not exist there. Without a
# shared directory, the exit status is the only result that arrives.

{ cd "$1" 2>/dev/null && [ -r probe.sh ]; } || exit "$2"
/bin/sh ./probe.sh >answer.part 2>problems </dev/null
mv -f answer.part answer
