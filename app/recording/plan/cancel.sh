# shellcheck shell=sh disable=SC2013,SC2154
# Ends submissions of start.sh: pl_ask_all lets them complete their files, pl_kill_all kills all their processes.

# shellcheck source=/dev/null
. ./common.sh && . ./plan.sh || exit 1
pl_find_boot
# Only processes that were started on this host, since its boot.
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
# All marked processes, and all of the session, because a program may have cleared its environment.
pl_kill_all() {
    pl_rounds=0
    while [ "$pl_rounds" -lt 40 ]; do
        pl_rounds=$((pl_rounds + 1))
        pl_some=''
        for pl_file in ./sub*.id; do
            pl_ours "$pl_file" || continue
            # The id of a session is not reused while it has processes.
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
# Whether a session belongs to this job: its leader is job.sh, or has ended.
pl_sessions() {
    ! pl_born "$1" || [ "$pl_ticks" = "$pl_since" ]
}
