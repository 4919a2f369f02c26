#!/bin/sh
# One rank of one run, or the only process of a job without MPI: sh rank.sh DIRECTORY RUN. Records it if it is selected,
# converts the recording to text on this host, which has the symbols, and exits with the status of the user's program.
#
# With MPI there are two such processes: a launcher that loses one rank may immediately kill all others, and data that perf
# has not written yet would be lost. So the process that the launcher started only waits for the same script in a separate
# session (with a third argument: the pid of the waiting process), which ends cleanly when the waiting process is killed.
# shellcheck disable=SC2034,SC2154,SC2317

pl_directory=$1
pl_run=$2
# shellcheck source=common.sh
. "$pl_directory/common.sh" || exit 125
# shellcheck source=/dev/null
. "$pl_directory/plan.sh" || exit 125

# pl_stand_in: start this script in a separate session and wait for it. Returns if that is not possible.
pl_stand_in() {
    command -v setsid >/dev/null 2>&1 || return 0
    pl_fifo=$(mktemp -d 2>/dev/null) || return 0
    if ! mkfifo "$pl_fifo/life" 2>/dev/null; then
        rmdir "$pl_fifo"
        return 0
    fi
    # This process has the only writing end, so the reader gets the end of file when it ends, for whatever reason. As
    # standard input, because MPI passes other descriptors to ranks by number.
    exec <>"$pl_fifo/life"
    (pl_as_found setsid /bin/sh "$pl_directory/rank.sh" "$pl_directory" "$pl_run" $$) </dev/null &
    pl_child=$!
    pl_born "$pl_child"
    # shellcheck disable=SC2016
    setsid /bin/sh -c '. "$1/common.sh"; rm -rf "$2"; read -r pl_line; ! pl_alive "$3" "$4" || kill -s HUP "$3"' \
        sh "$pl_directory" "$pl_fifo" "$pl_child" "$pl_ticks" <"$pl_fifo/life" >/dev/null 2>&1 &
    pl_watcher=$!
    trap 'pl_interrupted=1; kill -s TERM "$pl_child" 2>/dev/null' TERM INT HUP USR2 XCPU
    # The rank failed: report that to the launcher immediately, while it completes its recording.
    pl_failed=''
    trap 'pl_failed=1' USR1
    wait "$pl_child"
    pl_status=$?
    while [ -z "$pl_failed" ] && [ -n "$pl_interrupted" ]; do
        pl_interrupted=''
        wait "$pl_child"
        pl_status=$?
    done
    if [ -n "$pl_failed" ]; then
        read -r pl_status <"$pl_directory/run$pl_run/.failed-$pl_child" || pl_status=1
        rm -f "$pl_directory/run$pl_run/.failed-$pl_child"
    fi
    kill "$pl_watcher" 2>/dev/null
    rm -rf "$pl_fifo"
    exit "$pl_status"
}

# The output may go to a launcher that has ended. SIGPIPE must not end this script, or perf, which prints messages before
# it has completed its file. A pipe that this process can also read never breaks.
trap : PIPE
pl_never_break() {
    if [ -p /proc/self/fd/1 ] && (exec 1<>/proc/self/fd/1) 2>/dev/null; then exec 1<>/proc/self/fd/1; fi
    if [ -p /proc/self/fd/2 ] && (exec 2<>/proc/self/fd/2) 2>/dev/null; then exec 2<>/proc/self/fd/2; fi
}

pl_interrupted=''
pl_outer=${3-}
if [ -z "$pl_outer" ] && [ -n "$pl_flavour" ]; then pl_stand_in; fi

pl_stopped='' pl_child='' pl_program='' pl_limit='' pl_press='' pl_holding='' pl_recorder_pid='' pl_seek='' pl_killed=''
pl_counting='' pl_reporter=''
pl_rank='' pl_size='' pl_recorded=1 pl_notes=''
pl_find_host

# pl_number TEXT: whether it is a number.
pl_number() {
    case $1 in '' | *[!0-9]*) return 1 ;; esac
}

# pl_try RANK SIZE: use these values of a launcher's variables, if they are set.
pl_try() {
    pl_number "$1" || return 1
    pl_rank=$1
    if pl_number "$2"; then pl_size=$2; fi
}

# Determine the rank.
pl_find_rank() {
    pl_take_rank && return
    pl_notes="The MPI launcher on $pl_host set no variable with the rank. Check that the right MPI implementation is chosen."
}

# Report the CPUs that this rank may use, and the governor of CPU frequencies, for the conditions of the recording.
pl_say_conditions() {
    pl_frequency=/sys/devices/system/cpu/cpu0/cpufreq
    pl_value=''
    if [ -d "$pl_frequency" ]; then
        { IFS='' read -r pl_value <"$pl_frequency/scaling_governor"; } 2>/dev/null
    elif [ -d "${pl_frequency%/cpufreq}" ]; then
        pl_value=none
    fi
    [ -z "$pl_value" ] || pl_say governor "$pl_value"
    while read -r pl_key pl_value; do
        [ "$pl_key" != Cpus_allowed_list: ] || pl_say cpus "$pl_value"
    done <"/proc/$$/status"
} 2>/dev/null

# Whether this run is recorded.
pl_run_is_recorded() {
    case " $pl_unrecorded " in *" $pl_run "*) return 1 ;; esac
}

# Whether this rank is selected for recording.
pl_chosen() {
    pl_run_is_recorded || return 1
    pl_number "$pl_rank" || return 0
    [ $((pl_rank % pl_every)) -eq 0 ] || return 1
    [ -n "$pl_only" ] || return 0
    for pl_each in $pl_only; do
        if [ "$pl_rank" -ge "${pl_each%-*}" ] && [ "$pl_rank" -le "${pl_each#*-}" ]; then return 0; fi
    done
    return 1
}

# Create the rank's directory exclusively, so that no rank writes into that of another, even if the launcher assigned the
# same number twice.
pl_take_place() {
    mkdir -p "$pl_directory/run$pl_run" 2>/dev/null
    pl_place=${pl_rank:-all}
    [ -z "$pl_flavour" ] || [ -n "$pl_rank" ] || pl_place=on-$pl_host-$$
    if ! mkdir "$pl_directory/run$pl_run/$pl_place" 2>/dev/null; then
        pl_notes="$pl_notes Another process of this run also was rank ${pl_rank:-all}."
        pl_place=on-$pl_host-$$
        mkdir "$pl_directory/run$pl_run/$pl_place" || {
            echo "perfloom: The directory $pl_directory/run$pl_run/$pl_place cannot be created on $pl_host. Check that" \
                "the host may write there, and that its disk is not full." >&2
            exit 125
        }
    fi
    pl_home=$pl_directory/run$pl_run/$pl_place
    pl_state=$pl_home/state
}

# With one recording per host, the first rank of a host makes it, in a directory of the host.
pl_take_host() {
    if mkdir "$pl_directory/run$pl_run/on-$pl_host" 2>/dev/null; then
        pl_say recorded 0
        pl_home=$pl_directory/run$pl_run/on-$pl_host
        pl_also=$pl_state
        pl_state=$pl_home/state
        pl_say_here host "$pl_host"
        pl_say_here recorded 1
    else
        pl_recorded=0
        pl_say recorded 0
    fi
}

# Set pl_out, where perf writes: the job's directory, or this host's local disk.
pl_take_scratch() {
    pl_out=$pl_home
    [ -n "$pl_has_scratch" ] || return 0
    pl_find_scratch "$pl_run" "${pl_home##*/}"
    [ -z "$pl_notes" ] || pl_note "$pl_notes"
    [ -n "$pl_out" ] || pl_out=$pl_home
}

# pl_find_written: set pl_written to the size of the recording; fails if there is none.
pl_find_written() {
    pl_written=$(stat -c %s "$pl_out/perf.data" 2>/dev/null) && pl_number "$pl_written"
}

# pl_report_written TICKS: a recording on this host's local disk is not visible where jobs are polled, so write its size to
# the job's directory while this process is alive: in place, after 5 s, later every 15 s.
pl_report_written() {
    pl_pause=5
    while pl_sleep "$pl_pause" && pl_alive $$ "$1"; do
        ! pl_find_written || { printf 'written %020d\n' "$pl_written" 1<>"$pl_home/written"; } 2>/dev/null || :
        [ "$pl_pause" -ge 15 ] || pl_pause=$((pl_pause + 1))
    done
}

pl_stop() {
    pl_interrupted=1
    [ -z "$pl_stopped" ] || return 0
    pl_stopped=$1
    pl_say stopped "$1"
    [ -z "$pl_child" ] || pl_ask
}

# On INT, perf completes its file and ends its command. A command that ignores that is ended directly. Only once: a trap and
# the check after it may both call this.
pl_ask() {
    [ -z "$pl_press" ] || return 0
    if [ -n "$pl_program" ]; then
        kill -s TERM "$pl_program" 2>/dev/null
        kill -s CONT "$pl_program" 2>/dev/null
        pl_let_go
    else
        kill -s INT "$pl_child" 2>/dev/null
    fi
    pl_later 1 pl_press_on
    pl_press=$pl_timer
}

pl_press_on() {
    pl_kill TERM "PERFLOOM_PART=$pl_part" "$pl_child" "$pl_recorder_pid"
    pl_sleep "$pl_stop_timeout"
    pl_kill KILL "PERFLOOM_PART=$pl_part" "$pl_child" "$pl_recorder_pid"
    pl_sleep 30
    pl_kill KILL "PERFLOOM_PART=$pl_part"
}

# Set up the environment of the user's program. PERFLOOM_PART identifies processes that lost their ancestors.
pl_enter_program() {
    # USR2 may be sent to all processes, but is for this script. It would end perf stat; perf record uses it otherwise.
    [ "$pl_recorded" -eq 0 ] || trap '' USR2
    pl_enter "$pl_run"
    pl_preload
    [ -z "$pl_language" ] || pl_name_functions
    PERFLOOM_PART=$pl_part
    export PERFLOOM_PART
}

pl_recording() {
    pl_enter_program
    if [ -n "$pl_injects" ]; then
        pl_inject
        pl_command "$pl_run" pl_plain
    fi
    [ -z "$pl_uses_perf" ] || command -v "$pl_perf" >/dev/null 2>&1 || {
        echo "perfloom: perf was not found on $pl_host under the name $pl_perf. Install it there, load the module that" \
            "provides it, or set its path in the target." >&2
        exit 127
    }
    pl_record "$pl_run" pl_with_command
}

pl_with_command() {
    [ -n "$pl_has_command" ] || exec "$@"
    if [ -n "$pl_counting" ] && pl_command "$pl_run" pl_findable; then
        pl_command "$pl_run" exec "$@" -- "$pl_directory/perfloom-wait" "$pl_out"
    fi
    pl_command "$pl_run" exec "$@" --
}

# If the program does not exist, perf reports it.
pl_findable() {
    command -v "$1" >/dev/null 2>&1
}

pl_without_recording() {
    pl_enter_program
    pl_command "$pl_run" pl_plain
}

# pl_seek_program: store the pid of the program when perf has started it: perf may be killed while the program continues.
pl_seek_program() {
    while pl_born "$pl_begun" && [ "$pl_condition" != Z ]; do
        pl_children='' pl_name=''
        { read -r pl_name <"/proc/$pl_begun/comm"; } 2>/dev/null
        { read -r pl_children <"/proc/$pl_begun/task/$pl_begun/children"; } 2>/dev/null
        case $pl_name in perf*)
            if [ -n "$pl_children" ] && pl_born "${pl_children%% *}"; then
                printf '%s %s\n' "${pl_children%% *}" "$pl_ticks" >"$pl_out/.program"
                return 0
            fi
            ;;
        esac
        pl_sleep 1
    done
}

# pl_follow_program: if perf was killed (by the kernel when memory is low), wait for the program. It is not a child of this
# process, so its exit status is unknown.
pl_follow_program() {
    pl_forget "$pl_seek"
    if [ -n "$pl_stopped" ] || [ "$pl_status" -le 128 ] || [ "$pl_status" -gt 192 ]; then return 0; fi
    { read -r pl_left pl_since <"$pl_out/.program"; } 2>/dev/null || return 0
    pl_alive "$pl_left" "$pl_since" || return 0
    pl_killed=$((pl_status - 128))
    pl_program=$pl_left
    while pl_alive "$pl_left" "$pl_since"; do pl_sleep 1; done
    pl_status=0
}

# With sudo, only perf runs as root. The program is stopped until perf observes it; perf writes to a file that is opened
# here, so that it belongs to the user, and ends with its own command, which reads a pipe that this process holds open.
pl_with_sudo() {
    pl_hold=$pl_out/.hold
    pl_words=$pl_out/.words
    mkfifo "$pl_hold" && : >"$pl_words" || exit 125
    if [ -n "$pl_has_command" ]; then
        (pl_enter_program && pl_command "$pl_run" pl_plain /bin/sh -c 'kill -s STOP $$; exec "$@"' sh) </dev/null &
        pl_program=$!
        pl_until_stopped
    fi
    # This process has the only writing end. No other command here needs standard input.
    exec <>"$pl_hold"
    pl_holding=1
    pl_record "$pl_run" pl_as_root <"$pl_hold" >"$pl_out/$pl_artefact" 2>"$pl_words" &
    pl_recorder_pid=$!
    pl_child=${pl_program:-$pl_recorder_pid}
    [ -z "$pl_stopped" ] || pl_ask
    until grep -q '^perfloom-ready$' "$pl_words" || ! pl_born "$pl_recorder_pid" || [ "$pl_condition" = Z ]; do
        pl_nap
    done
    if [ -n "$pl_program" ]; then
        if ! grep -q '^perfloom-ready$' "$pl_words"; then
            # Nothing would be recorded: as without sudo, the program is not run.
            kill -s KILL "$pl_program"
            wait "$pl_program" 2>/dev/null
            pl_let_go
            wait "$pl_recorder_pid"
            pl_status=$?
            grep -v '^perfloom-ready$' "$pl_words" >&2
            rm -f "$pl_hold" "$pl_words"
            [ "$pl_status" -ne 0 ] || pl_status=255
            return 0
        fi
        pl_say_now start
        kill -s CONT "$pl_program"
    elif [ -n "$pl_pid" ]; then
        # perf stat would only wait for its own command.
        (
            for pl_each in $(echo "$pl_pid" | tr ',' ' '); do
                while [ -d "/proc/$pl_each" ]; do sleep 1; done
            done
            kill -s ALRM $$
        ) </dev/null >/dev/null 2>&1 &
        pl_watch=$!
    fi
    pl_say pid "$pl_child"
    pl_say state recording
    pl_wait "$pl_child"
    pl_ended=$pl_status
    pl_let_go
    [ "$pl_child" = "$pl_recorder_pid" ] || wait "$pl_recorder_pid"
    [ -z "${pl_watch-}" ] || kill "$pl_watch" 2>/dev/null
    pl_status=$pl_ended
    grep -v '^perfloom-ready$' "$pl_words" >&2
    rm -f "$pl_hold" "$pl_words"
}

pl_let_go() {
    [ -z "$pl_holding" ] || exec </dev/null
    pl_holding=''
}

# Start perf with the process to observe. Its own command reports that perf is ready, and ends with this process.
pl_as_root() {
    PATH=$pl_path
    [ -z "$pl_program" ] || [ -n "$pl_per_host$pl_whole_system" ] || set -- "$@" -p "$pl_program"
    exec sudo -n "$@" -- /bin/sh -c 'echo perfloom-ready >&2; exec cat >/dev/null'
}

pl_until_stopped() {
    while pl_born "$pl_program"; do
        case $pl_condition in T | Z) return ;; esac
        pl_nap
    done
}

pl_never_break
[ -z "$pl_flavour" ] || pl_find_rank
pl_take_place
pl_part=$pl_id/$pl_run/$pl_place/
pl_say host "$pl_host"
pl_say_conditions
[ -z "$pl_rank" ] || pl_say rank "$pl_rank"
[ -z "$pl_size" ] || pl_say size "$pl_size"
[ -z "$pl_notes" ] || pl_note "$pl_notes"
if [ -n "$pl_per_host" ] && pl_run_is_recorded; then
    pl_take_host
else
    pl_chosen || pl_recorded=0
    pl_say recorded "$pl_recorded"
fi
# Where interpreters keep the names of functions; with one recording per host, those of all its ranks.
pl_names=$pl_home/names
[ -z "$pl_per_host" ] || pl_names=$pl_directory/run$pl_run/on-$pl_host/names
if ! pl_run_is_recorded || [ "$pl_recorded$pl_per_host" = 0 ]; then pl_language=''; fi
if [ -n "$pl_language" ]; then
    mkdir -p "$pl_names"
    # For options with a path between double quotes.
    pl_quoted=$(printf '%s' "$pl_directory" | sed 's/[\\"]/\\&/g')
fi
pl_take_scratch
for pl_each in TERM INT HUP USR1 USR2 XCPU; do
    # shellcheck disable=SC2064
    trap "pl_stop 'signal $pl_each'" "$pl_each"
done
trap 'pl_stop limit' ALRM
# The process that waits for this one on behalf of the launcher was killed.
trap 'pl_stop starter' HUP

# With sudo it takes a while until perf observes the program.
if [ "$pl_recorded" -eq 0 ] || [ -z "$pl_sudo" ]; then pl_say state recording; fi
pl_say_now start
if [ "$pl_recorded" -eq 0 ]; then
    (pl_without_recording) &
    pl_program=$!
    pl_begun=$!
elif [ -z "$pl_sudo" ]; then
    # Reserve space for messages and the conversion, in case the recording fills the disk.
    { head -c 131072 /dev/zero >"$pl_out/.reserve"; } 2>/dev/null
    ! pl_can_count || pl_counting=1
    (pl_recording) &
    pl_begun=$!
    [ -z "$pl_counting" ] || pl_begin_counting
    # A program with an injected recorder gets the requests to end itself.
    if [ -n "$pl_injects" ]; then
        pl_program=$pl_begun
    else
        pl_later 1 pl_seek_program
        pl_seek=$pl_timer
    fi
fi
if [ "$pl_recorded" -eq 1 ] && [ "$pl_out" != "$pl_home" ] && [ "$pl_artefact" = perf.data ]; then
    pl_born $$ || pl_ticks=0
    pl_later 0 pl_report_written "$pl_ticks"
    pl_reporter=$pl_timer
fi
if [ -n "$pl_duration" ]; then
    pl_later "$pl_duration" kill -s ALRM $$
    pl_limit=$pl_timer
fi
if [ "$pl_recorded" -eq 1 ] && [ -n "$pl_sudo" ]; then
    pl_with_sudo
else
    # From now on a trap can end the process. Before, it could run between the fork and the use of $!.
    pl_child=$pl_begun
    pl_say pid "$pl_child"
    # A signal may have arrived before there was a process to end.
    [ -z "$pl_stopped" ] || pl_ask
    pl_wait "$pl_child"
    pl_follow_program
fi
pl_child=''
pl_forget "$pl_limit"
pl_forget "$pl_press"
pl_forget "$pl_reporter"
pl_ended=$pl_status
rm -f "$pl_out/.reserve" "$pl_out/.program"
if [ "$pl_recorded" -eq 1 ] && [ -z "$pl_stopped" ] && [ "$pl_ended" -ne 0 ] && pl_full "$pl_out"; then
    # perf ends its program when it cannot write any more.
    pl_stopped=disk
    pl_say stopped disk
    pl_note "The disk of $pl_out on $pl_host is full. The recording ended early."
fi
if [ -n "$pl_stopped" ]; then
    :
elif [ -n "$pl_killed" ]; then
    pl_say killed "$pl_killed"
elif [ "$pl_ended" -gt 128 ] && [ "$pl_ended" -le 192 ]; then
    pl_say signal $((pl_ended - 128))
else
    pl_say exit "$pl_ended"
fi
pl_say_now end
! pl_find_written || pl_say_here written "$pl_written"
pl_say state ended
pl_end_counting

# End all remaining processes.
if pl_kill_part "$pl_part" 2; then
    pl_note "Processes that still ran when the program ended were also ended."
fi

# Report a failed rank to its launcher immediately, or the other ranks wait for it.
if [ -n "$pl_outer" ] && [ "$pl_ended" -ne 0 ] && [ -z "$pl_stopped" ]; then
    echo "$pl_ended" >"$pl_directory/run$pl_run/.failed-$$"
    kill -s USR1 "$pl_outer" 2>/dev/null
fi

pl_take_notes "$pl_out"
pl_take_notes "$pl_names"
if [ -s "$pl_out/perf.data" ]; then
    pl_say state reading
    if pl_full "$pl_out"; then
        pl_bring "$pl_out" "$pl_home"
        pl_out=$pl_home
    fi
    if ! pl_write_tables "$pl_out" && pl_read "$pl_out" && [ -z "$pl_keep" ]; then rm -f "$pl_out/perf.data"; fi
    pl_remove_names "$pl_names"
fi
pl_bring "$pl_out" "$pl_home"
pl_say state 'done'
case $pl_stopped in
'' | disk) exit "$pl_ended" ;;
limit) exit 0 ;;
*) exit 143 ;;
esac
