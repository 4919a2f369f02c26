# shellcheck shell=sh
# Precedes the other scripts of LSF: without this, LSF's programs wait forever for a master that is down. bsub does not get
# it and waits, because a submission without an answer must not be repeated.

LSB_NTRIES=${LSB_NTRIES:-3}; export LSB_NTRIES
