# shellcheck shell=sh disable=SC2154,SC2209
# Starts submission pl_number without a batch system, and prints its id; pl_half: printed if it was begun and has no id.
# job.sh ensures that it runs once, with sub<k>.ran, so it may be started again.

cd / || exit 1
umask "$pl_umask"
if [ ! -e "$pl_directory/sub$pl_number.ran" ]; then
    pl_own=setsid
    command -v setsid >/dev/null 2>&1 || pl_own=nohup
    PATH=$pl_path $pl_own /bin/sh "$pl_directory/job.sh" "$pl_directory" "$pl_number" </dev/null \
        >>"$pl_directory/sub$pl_number.log" 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- &
fi
if pl_wait_for "$pl_directory/sub$pl_number.id"; then
    cat "$pl_directory/sub$pl_number.id"
elif [ -e "$pl_directory/sub$pl_number.ran" ]; then
    echo "$pl_half"
else
    cat "$pl_directory/sub$pl_number.log" >&2
    exit 1
fi
