# shellcheck shell=sh disable=SC2013,SC2154
# Ends what start.sh started: pl_ask_all has it complete its files, pl_kill_all ends everything at once.

# shellcheck source=/dev/null
. ./common.sh && . ./plan.sh || exit 1
pl_find_boot
# Only what began on this host, since its boot, and is still the same process.
pl_ours() {
    pl_leader='' pl_since='' pl_where=''
    { read -r pl_leader pl_since pl_where <"$1"; } 2>/dev/null
    case $pl_leader in '' | *[!0-9]*) return 1 ;; esac
    [ "$pl_where" = "$pl_boot" ]
}
pl_ask_all() {
    for pl_file in ./sub*.id; do
        if pl_ours "$pl_file" && pl_alive "$pl_leader" "$pl_since"; then kill -s TERM "$pl_leader"; fi
    done
}
# All that is marked, and all of the session: a program may have cleared its environment.
pl_kill_all() {
    pl_rounds=0
    while [ "$pl_rounds" -lt 40 ]; do
        pl_rounds=$((pl_rounds + 1))
        pl_some=''
        for pl_file in ./sub*.id; do
            pl_ours "$pl_file" || continue
            # The number of a session is not given to another process while anybody is in it.
            for pl_one in $(cat /proc/[0-9]*/stat 2>/dev/null |
                sed -n "s/^\([0-9]*\) (.*) [A-Ya-z] [0-9-]* [0-9-]* $pl_leader [0-9-]* .*/\1/p"); do
                pl_sessions "$pl_leader" || continue
                kill -s KILL "$pl_one" 2>/dev/null && pl_some=1
            done
        done
        if pl_kill KILL "PERFLOOM_JOB=$pl_id"; then pl_some=1; fi
        [ -n "$pl_some" ] || return 0
        pl_nap
    done
    echo "Some processes of the job could not be ended: $pl_left" >&2
    return 1
}
# Whether a session is this job's: its leader is the one we know, or has ended.
pl_sessions() {
    ! pl_born "$1" || [ "$pl_ticks" = "$pl_since" ]
}
