#!/bin/sh
# One rank of one run, or the one process of a job without MPI: sh rank.sh DIRECTORY RUN. Records it where it is to be
# recorded, has the recording made text here, where its symbols are, and ends as the user's program did.
# shellcheck disable=SC2034,SC2154,SC2317

pl_directory=$1
pl_run=$2
# shellcheck source=app/launchers/common.sh
. "$pl_directory/common.sh" || exit 125
# shellcheck source=/dev/null
. "$pl_directory/plan.sh" || exit 125

pl_stopped='' pl_child='' pl_program='' pl_timer='' pl_limit='' pl_press='' pl_holding='' pl_recorder_pid=''
pl_rank='' pl_size='' pl_recorded=1 pl_notes=''
pl_find_host

# pl_number TEXT: whether it is one.
pl_number() {
    case $1 in '' | *[!0-9]*) return 1 ;; esac
}

# pl_try RANK SIZE: take these values of a starter's variables, where they are there.
pl_try() {
    pl_number "$1" || return 1
    pl_rank=$1
    if pl_number "$2"; then pl_size=$2; fi
}

# Who we are. The flavour's own variables go first: an mpirun in a batch job inherits those of the batch system.
pl_find_rank() {
    case $pl_flavour in
    openmpi | spectrum)
        pl_try "${OMPI_COMM_WORLD_RANK-}" "${OMPI_COMM_WORLD_SIZE-}" && return
        pl_try "${PMIX_RANK-}" '' && return
        ;;
    mpich | intel)
        pl_try "${PMI_RANK-}" "${PMI_SIZE-}" && return
        pl_try "${PMIX_RANK-}" "${PMI_SIZE-}" && return
        ;;
    platform)
        pl_try "${MPI_RANKID-}" "${MPI_NRANKS-}" && return
        ;;
    srun)
        pl_try "${SLURM_PROCID-}" "${SLURM_STEP_NUM_TASKS-${SLURM_NTASKS-}}" && return
        ;;
    esac
    pl_try "${OMPI_COMM_WORLD_RANK-}" "${OMPI_COMM_WORLD_SIZE-}" && return
    pl_try "${PMI_RANK-}" "${PMI_SIZE-}" && return
    pl_try "${MPI_RANKID-}" "${MPI_NRANKS-}" && return
    pl_try "${PMIX_RANK-}" "${PMI_SIZE-}" && return
    pl_notes="The starter of ranks on $pl_host set no variable that tells the rank. Was the right flavour of MPI chosen?"
}

# Whether this rank is among those that are to be recorded.
pl_chosen() {
    pl_number "$pl_rank" || return 0
    [ $((pl_rank % pl_every)) -eq 0 ] || return 1
    [ -n "$pl_only" ] || return 0
    for pl_each in $pl_only; do
        if [ "$pl_rank" -ge "${pl_each%-*}" ] && [ "$pl_rank" -le "${pl_each#*-}" ]; then return 0; fi
    done
    return 1
}

# A directory of its own, made exclusively: no rank writes into another's, whatever the starter told it.
pl_take_place() {
    mkdir -p "$pl_directory/run$pl_run" 2>/dev/null
    pl_place=${pl_rank:-all}
    [ -z "$pl_flavour" ] || [ -n "$pl_rank" ] || pl_place=on-$pl_host-$$
    if ! mkdir "$pl_directory/run$pl_run/$pl_place" 2>/dev/null; then
        pl_notes="$pl_notes Another process of this run was rank ${pl_rank:-all} too."
        pl_place=on-$pl_host-$$
        mkdir "$pl_directory/run$pl_run/$pl_place" || {
            echo "perfloom: The directory $pl_directory/run$pl_run/$pl_place cannot be made on $pl_host. Can that host" \
                "write there, and has its disk room?" >&2
            exit 125
        }
    fi
    pl_home=$pl_directory/run$pl_run/$pl_place
    pl_state=$pl_home/state
}

# Where one recording is made of each host, the first rank there to come makes it, in a directory of the host's own.
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

# Where perf writes: at once to where it belongs, or on a disk of this host's own.
pl_take_scratch() {
    pl_out=$pl_home
    [ -n "$pl_scratch" ] || return 0
    case $pl_scratch in
    /*) ;;
    *)
        pl_note "The scratch directory '$pl_scratch' is no full path on $pl_host: recorded without it."
        return 0
        ;;
    esac
    pl_out=$pl_scratch/perfloom-$pl_id-$pl_run-${pl_home##*/}
    if ! pl_said=$( (mkdir -p "$pl_scratch" && mkdir "$pl_out") 2>&1); then
        pl_note "The scratch directory cannot be used on $pl_host: $pl_said. Recorded without it."
        pl_out=$pl_home
    fi
}

pl_stop() {
    pl_interrupted=1
    [ -z "$pl_stopped" ] || return 0
    pl_stopped=$1
    pl_say stopped "$1"
    [ -z "$pl_child" ] || pl_ask
}

# perf completes its file on INT and ends its command. A command that does not care for that is ended below it.
pl_ask() {
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
    sleep 2
    pl_kill KILL "PERFLOOM_PART=$pl_part" "$pl_child" "$pl_recorder_pid"
    sleep 30
    pl_kill KILL "PERFLOOM_PART=$pl_part"
}

# What the user's program finds. By its part the processes are known that lost their ancestors.
pl_enter_program() {
    pl_enter "$pl_run"
    pl_preload
    PERFLOOM_PART=$pl_part
    export PERFLOOM_PART
}

pl_recording() {
    pl_enter_program
    pl_record "$pl_run" pl_with_command
}

pl_with_command() {
    [ -n "$pl_has_command" ] || exec "$@"
    pl_command "$pl_run" exec "$@" --
}

pl_without_recording() {
    pl_enter_program
    pl_command "$pl_run" pl_plain
}

# With sudo, perf alone is root's. The program waits, stopped, until perf observes it; perf writes to a file that is
# opened here, so that it belongs to the user, and ends when its own command does: a reader of a pipe that we hold.
pl_with_sudo() {
    pl_hold=$pl_out/.hold
    pl_words=$pl_out/.words
    mkfifo "$pl_hold" || return 1
    if [ -n "$pl_has_command" ]; then
        (pl_enter_program && pl_command "$pl_run" pl_plain /bin/sh -c 'kill -s STOP $$; exec "$@"' sh) &
        pl_program=$!
        pl_child=$pl_program
        pl_until_stopped
    fi
    exec 9<>"$pl_hold"
    pl_holding=1
    pl_record "$pl_run" pl_as_root <"$pl_hold" >"$pl_out/$pl_artefact" 2>"$pl_words" 9>&- &
    pl_recorder_pid=$!
    : "${pl_child:=$pl_recorder_pid}"
    [ -z "$pl_stopped" ] || pl_ask
    until grep -q '^perfloom-ready$' "$pl_words" || ! pl_born "$pl_recorder_pid" || [ "$pl_condition" = Z ]; do
        pl_nap
    done
    if [ -n "$pl_program" ]; then
        if ! grep -q '^perfloom-ready$' "$pl_words"; then
            # Nothing would be recorded: as without sudo, the program is not run then.
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
        kill -s CONT "$pl_program"
    elif [ -n "$pl_pid" ]; then
        # perf stat would wait for its own command only.
        (while [ -d "/proc/$pl_pid" ]; do sleep 1; done; kill -s ALRM $$) 9>&- </dev/null >/dev/null 2>&1 &
        pl_watch=$!
    fi
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
    [ -z "$pl_holding" ] || exec 9>&-
    pl_holding=''
}

# perf is told whom to observe; its own command says that perf is ready, and ends with us.
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

# Bring what was recorded from this host's own disk to where it belongs.
pl_bring() {
    [ "$pl_out" != "$pl_home" ] || return 0
    pl_kept=''
    for pl_each in "$pl_out"/perf.script* "$pl_out"/perf-stat.txt "$pl_out"/perf.data; do
        [ -f "$pl_each" ] || continue
        if pl_said=$(cp "$pl_each" "$pl_home/.part" 2>&1) && mv -f "$pl_home/.part" "$pl_home/${pl_each##*/}"; then
            rm -f "$pl_each"
        else
            rm -f "$pl_home/.part"
            pl_kept="$pl_kept ${pl_each##*/}"
        fi
    done
    if [ -n "$pl_kept" ]; then
        pl_note "These files could not be copied from $pl_host:$pl_out and lie there:$pl_kept. $pl_said"
    else
        rm -rf "$pl_out"
    fi
}

[ -z "$pl_flavour" ] || pl_find_rank
pl_take_place
pl_part=$pl_id/$pl_run/$pl_place/
pl_say host "$pl_host"
[ -z "$pl_rank" ] || pl_say rank "$pl_rank"
[ -z "$pl_size" ] || pl_say size "$pl_size"
[ -z "$pl_notes" ] || pl_note "$pl_notes"
if [ -n "$pl_per_host" ]; then
    pl_take_host
else
    pl_chosen || pl_recorded=0
    pl_say recorded "$pl_recorded"
fi
pl_take_scratch
for pl_each in TERM INT HUP USR1 USR2 XCPU; do
    # shellcheck disable=SC2064
    trap "pl_stop 'signal $pl_each'" "$pl_each"
done
trap 'pl_stop limit' ALRM

pl_say state recording
pl_say_now start
if [ "$pl_recorded" -eq 0 ]; then
    (pl_without_recording) &
    pl_program=$!
    pl_child=$!
elif [ -n "$pl_sudo" ]; then
    pl_child=''
else
    (pl_recording) &
    pl_child=$!
fi
if [ -n "$pl_duration" ]; then
    pl_later "$pl_duration" kill -s ALRM $$
    pl_limit=$pl_timer
fi
if [ "$pl_recorded" -eq 1 ] && [ -n "$pl_sudo" ]; then
    pl_with_sudo
else
    pl_say pid "$pl_child"
    # A signal may have come while there was nobody to tell it to.
    [ -z "$pl_stopped" ] || pl_ask
    pl_wait "$pl_child"
fi
pl_child=''
pl_forget "$pl_limit"
pl_forget "$pl_press"
pl_ended=$pl_status
if [ -n "$pl_stopped" ]; then
    :
elif [ "$pl_ended" -gt 128 ] && [ "$pl_ended" -le 192 ]; then
    pl_say signal $((pl_ended - 128))
else
    pl_say exit "$pl_ended"
fi
pl_say_now end
pl_say state ended

# Nobody is left behind.
if pl_kill TERM "PERFLOOM_PART=$pl_part"; then
    pl_tries=0
    while pl_nap && pl_kill CONT "PERFLOOM_PART=$pl_part" && [ "$pl_tries" -lt 40 ]; do
        pl_tries=$((pl_tries + 1))
    done
    pl_kill KILL "PERFLOOM_PART=$pl_part"
    pl_note "Processes were still running when the program had ended, and were ended too."
fi

if [ -s "$pl_out/perf.data" ]; then
    # Where a rank came to a bad end, the others are waiting for ours to say so: job.sh reads it afterwards.
    if [ -z "$pl_flavour" ] || [ "$pl_ended" -eq 0 ]; then
        pl_say state reading
        pl_in=$pl_out
        if pl_read "$pl_out" && [ -z "$pl_keep" ]; then rm -f "$pl_out/perf.data"; fi
    fi
fi
pl_bring
pl_say state 'done'
case $pl_stopped in
'') exit "$pl_ended" ;;
limit) exit 0 ;;
*) exit 143 ;;
esac
