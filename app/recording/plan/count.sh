# shellcheck shell=sh
# shellcheck disable=SC2034,SC2154
# Runs perf stat in parallel to perf record, for events whose samples have no absolute total. Follows common.sh, for
# rank.sh.
#
# In parallel and not as perf record's command: perf stat exits with 0 if a signal ended its command, which a shell cannot
# detect. perf record starts perfloom-wait, which executes the program when perf stat observes it. It cannot stop itself
# instead: perf record interprets the SIGCHLD as its end.

pl_counter=''

# pl_can_count: whether this run has events to count, and counting is possible.
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

# pl_begin_counting: start perf stat after perf record. It runs as long as this process holds its input open.
pl_begin_counting() {
    exec <>"$pl_out/.hold"
    pl_holding=1
    (pl_count_beside) <"$pl_out/.hold" >/dev/null 2>"$pl_out/.counting" &
    pl_counter=$!
}

pl_count_beside() {
    # Signals may be sent to all processes, but are for others.
    trap '' INT HUP USR1 USR2 XCPU
    pl_observed=''
    if [ -n "$pl_has_command" ]; then
        until read -r pl_observed <"$pl_out/.waits"; do
            if ! pl_born "$pl_begun" || [ "$pl_condition" = Z ]; then return; fi
            pl_nap
        done
    fi
    (pl_enter "$pl_run" && pl_count "$pl_run" pl_observe)
    # If perf stat has not started, the program runs without it.
    if [ -p "$pl_out/.go" ] && kill -0 "$pl_observed"; then echo >"$pl_out/.go"; fi
}

# perf stat's command lets the program start, after a delay, because older perfs start to count after their command. It
# ends when rank.sh closes its input; or with the program, if rank.sh was killed.
pl_observe() {
    if [ -n "$pl_per_host$pl_whole_system" ]; then set -- "$@" -a; else set -- "$@" -p "${pl_observed:-$pl_pid}"; fi
    # shellcheck disable=SC2016
    exec "$@" -- /bin/sh -c 'PATH=$PATH:/usr/bin:/bin
        sleep 0.05 2>/dev/null || sleep 1
        if [ -p "$1/.go" ]; then echo >"$1/.go"; rm -f "$1/.go"; fi
        cat >/dev/null
        while [ -n "$2" ] && kill -0 "$2" 2>/dev/null; do sleep 1; done' sh "$pl_out" "$pl_observed"
}

# pl_end_counting: after the end of the program, let perf stat print its counts.
pl_end_counting() {
    [ -n "$pl_counter" ] || return 0
    pl_let_go
    # Opening the pipe would wait forever after the program has ended.
    [ ! -p "$pl_out/.go" ] || { true <>"$pl_out/.go"; } 2>/dev/null
    pl_later 20 kill -s TERM "$pl_counter"
    pl_wait "$pl_counter"
    pl_forget "$pl_timer"
    if [ ! -s "$pl_out/perf-stat.txt" ] && { [ -z "$pl_has_command" ] || [ -s "$pl_out/.waits" ]; }; then
        pl_note "Events were not counted: $(tail -n 3 "$pl_out/.counting" 2>/dev/null)"
    fi
    rm -f "$pl_out/.hold" "$pl_out/.go" "$pl_out/.waits" "$pl_out/.counting"
}
