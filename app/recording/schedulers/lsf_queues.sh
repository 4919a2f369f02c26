# shellcheck shell=sh
# Prints the queues, then the parameters, if the user may read them.

bqueues -w || exit
bparams 2>/dev/null
exit 0
