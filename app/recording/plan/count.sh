# shellcheck shell=sh
# shellcheck disable=SC2034,SC2154
# perf stat beside perf record, for events whose samples tell no total. Laid down behind common.sh, for rank.sh.
#
# Beside it and not inside: perf stat ends with 0 where its command was ended by a signal, and a shell cannot find out.
# perf record starts perfloom-wait, which becomes the program when perf stat observes it. It cannot wait by being
# stopped: perf record takes the SIGCHLD of that for its end.

pl_counter=''

# pl_can_count: whether there is anything to be counted in this run, and it can be.
pl_can_count() {
    [ -n "$pl_counts" ] || return 1
    pl_count "$pl_run" true || return 1
    rm -f "$pl_out/.hold" "$pl_out/.go" "$pl_out/.waits"
    { mkfifo "$pl_out/.hold" && true >"$pl_out/.waits"; } 2>/dev/null || return 1
    [ -n "$pl_has_command" ] || return 0
    [ -x "$pl_directory/perfloom-wait" ] || chmod u+x "$pl_directory/perfloom-wait" 2>/dev/null
    if ! "$pl_directory/perfloom-wait" 2>/dev/null; then
        pl_note "Events are not counted: files in $pl_directory cannot be executed on $pl_host."
        return 1
    fi
    mkfifo "$pl_out/.go" 2>/dev/null
}

# pl_begin_counting: beside perf record, which has been started. What counts holds on as long as we hold its input.
pl_begin_counting() {
    exec <>"$pl_out/.hold"
    pl_holding=1
    (pl_count_beside) <"$pl_out/.hold" >/dev/null 2>"$pl_out/.counting" &
    pl_counter=$!
}

pl_count_beside() {
    # They may be sent to all, and are for others.
    trap '' INT HUP USR1 USR2 XCPU
    pl_observed=''
    if [ -n "$pl_has_command" ]; then
        until read -r pl_observed <"$pl_out/.waits"; do
            if ! pl_born "$pl_begun" || [ "$pl_condition" = Z ]; then return; fi
            pl_nap
        done
    fi
    (pl_enter "$pl_run" && pl_count "$pl_run" pl_observe)
    # Where perf stat has not begun, the program runs without it.
    if [ -p "$pl_out/.go" ] && kill -0 "$pl_observed"; then echo >"$pl_out/.go"; fi
}

# perf stat's own command has the program begin, a moment after perf has started it: older ones count only then. It ends
# when we let go; or with the program, where we were killed.
pl_observe() {
    if [ -n "$pl_per_host$pl_whole_system" ]; then set -- "$@" -a; else set -- "$@" -p "${pl_observed:-$pl_pid}"; fi
    # shellcheck disable=SC2016
    exec "$@" -- /bin/sh -c 'PATH=$PATH:/usr/bin:/bin
        sleep 0.05 2>/dev/null || sleep 1
        if [ -p "$1/.go" ]; then echo >"$1/.go"; rm -f "$1/.go"; fi
        cat >/dev/null
        while [ -n "$2" ] && kill -0 "$2" 2>/dev/null; do sleep 1; done' sh "$pl_out" "$pl_observed"
}

# pl_end_counting: the program has ended; have perf stat say what it counted.
pl_end_counting() {
    [ -n "$pl_counter" ] || return 0
    pl_let_go
    # Who opens it for a program that has ended would wait forever.
    [ ! -p "$pl_out/.go" ] || { true <>"$pl_out/.go"; } 2>/dev/null
    pl_later 20 kill -s TERM "$pl_counter"
    pl_wait "$pl_counter"
    pl_forget "$pl_timer"
    if [ ! -s "$pl_out/perf-stat.txt" ] && { [ -z "$pl_has_command" ] || [ -s "$pl_out/.waits" ]; }; then
        pl_note "Events were not counted: $(tail -n 3 "$pl_out/.counting" 2>/dev/null)"
    fi
    rm -f "$pl_out/.hold" "$pl_out/.go" "$pl_out/.waits" "$pl_out/.counting"
}
