#!/bin/sh
# Runs one submission of a job: sh job.sh DIRECTORY NUMBER. Started by a batch system, or directly in a separate session.
# shellcheck disable=SC2034,SC2154,SC2317

pl_directory=$1
pl_number=$2
# shellcheck source=common.sh
. "$pl_directory/common.sh" || exit 125
# shellcheck source=/dev/null
. "$pl_directory/plan.sh" || exit 125

pl_own_state=$pl_directory/sub$pl_number.state
pl_state=$pl_own_state
pl_stopped='' pl_child='' pl_press='' pl_run=''
pl_beat_s=5

# A batch system may start a job again, for example after a node failed. The user's program is started only once.
mkdir "$pl_directory/sub$pl_number.ran" 2>/dev/null || {
    echo "perfloom: This part of the job was already started, and is not started again." >&2
    exit 125
}
pl_find_host
pl_find_boot
pl_born $$ || pl_ticks=0
printf '%s %s %s\n' $$ "$pl_ticks" "$pl_boot" >"$pl_directory/.sub$pl_number.id"
mv -f "$pl_directory/.sub$pl_number.id" "$pl_directory/sub$pl_number.id" || exit 125
pl_say_now start
pl_say host "$pl_host"
pl_say pid $$

# pl_live TICKS: write a heartbeat: increment a counter in a file while this process is alive. In place, so that it also
# works on a full disk.
pl_live() {
    pl_beats=0
    while pl_alive $$ "$1"; do
        pl_beats=$((pl_beats + 1))
        { printf '%010d\n' "$pl_beats" 1<>"$pl_directory/sub$pl_number.life"; } 2>/dev/null || :
        pl_sleep "$pl_beat_s"
    done
}
# Started before PERFLOOM_JOB is in the environment, which identifies the processes to end.
pl_later 0 pl_live "$pl_ticks"
pl_life=$pl_timer
PERFLOOM_JOB=$pl_id
export PERFLOOM_JOB

# Request once that the run completes its files; processes that do not end are killed.
pl_stop() {
    pl_interrupted=1
    [ -z "$pl_stopped" ] || return 0
    pl_stopped=$1
    pl_state=$pl_own_state
    pl_say stopped "signal $1"
    [ -z "$pl_run" ] || pl_state=$pl_directory/run$pl_run/state
    [ -z "$pl_child" ] || pl_ask
}

# Some launchers forward USR2 to the ranks and continue; after TERM they give ranks little time. Others forward TERM, and
# USR2 would end them (which a batch system may send to all processes at the time limit).
pl_ask() {
    [ -z "$pl_press" ] || return 0
    kill -s "${pl_stop_signal:-TERM}" "$pl_child" 2>/dev/null
    pl_later 20 pl_press_on
    pl_press=$pl_timer
}

pl_press_on() {
    kill -s TERM "$pl_child" 2>/dev/null
    pl_sleep "$pl_grace"
    pl_kill KILL "PERFLOOM_JOB=$pl_id" $$
}

trap : PIPE
for pl_each in TERM INT HUP USR1 USR2 XCPU; do
    # shellcheck disable=SC2064
    trap "pl_stop $pl_each" "$pl_each"
done

# Start the MPI launcher, in a subshell with the job's environment.
pl_launch() {
    [ "$pl_stop_signal" = USR2 ] || trap '' USR2
    pl_enter "$pl_run"
    pl_launcher=''
    pl_launchers pl_find_launcher
    [ -n "$pl_launcher" ] || {
        echo "perfloom: No launcher of $pl_launcher_title was found on PATH on $pl_host. Set the launcher, or" \
            "load the module that provides it." >&2
        exit 125
    }
    pl_command "$pl_run" pl_check_program
    pl_find_situation
    pl_start "$pl_run" pl_become
}

# pl_find_launcher NAME …: set pl_launcher to the first one that exists and matches the version pattern, else the first one
# that exists. A single name was set by the user and is not checked.
pl_find_launcher() {
    pl_first=''
    for pl_each in "$@"; do
        command -v "$pl_each" >/dev/null 2>&1 || continue
        : "${pl_first:=$pl_each}"
        if [ $# -eq 1 ] || [ -z "$pl_version_pattern" ] ||
            "$pl_each" --version </dev/null 2>&1 | grep -q -e "$pl_version_pattern"; then
            pl_launcher=$pl_each
            return 0
        fi
    done
    [ -z "$pl_first" ] || pl_note "$pl_first does not report that it belongs to $pl_launcher_title, but was used."
    pl_launcher=$pl_first
}

# Determine what the launcher's options depend on: the user, and the allocation of the batch system.
pl_find_situation() {
    pl_root='' pl_hostfile='' pl_blaunch='' pl_crowded='' pl_unbound='' pl_pmi='' pl_nameless=''
    pl_nodes='' pl_by_name=''
    [ "$(id -u)" -ne 0 ] || pl_root=1
    if pl_find_allocation; then
        pl_find_room "$pl_nodes" || pl_unbound=1
    else
        # Open MPI has one slot per core, and by default refuses to start more ranks.
        pl_find_room 1 || pl_crowded=1
    fi
    pl_prepare_launcher
}

# pl_find_room NODES: whether this host has a core for each of its ranks, pl_there, if they are distributed evenly. A batch
# system may count hardware threads, or any number in its configuration.
pl_find_room() {
    pl_cores=$(grep -E '^(physical id|core id)' /proc/cpuinfo 2>/dev/null | paste -s -d ' \n' - 2>/dev/null | sort -u | grep -c .)
    pl_usable=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null)
    case $pl_usable in '' | *[!0-9]*) pl_usable=$pl_cores ;; esac
    if [ "${pl_cores:-0}" -eq 0 ] || [ "$pl_usable" -lt "$pl_cores" ]; then pl_cores=$pl_usable; fi
    case $1 in '' | 0 | *[!0-9]*) pl_there=$pl_ranks ;; *) pl_there=$(((pl_ranks + $1 - 1) / $1)) ;; esac
    [ "${pl_cores:-1}" -ge "$pl_there" ]
}

# A launcher's proxies on other hosts may connect to it by the name of this host. If that name cannot be resolved, it would
# wait for them forever. On a single node another address works.
pl_find_own_name() {
    pl_name=$(uname -n)
    command -v getent >/dev/null 2>&1 || return 0
    ! getent hosts "$pl_name" >/dev/null 2>&1 || return 0
    if [ "$pl_nodes" = 1 ]; then
        pl_nameless=1
    else
        pl_note "This host's name, $pl_name, cannot be resolved here. Ranks on other hosts may not reach $pl_launcher_title. Add it to /etc/hosts or to DNS."
    fi
}

# pl_check_program PROGRAM …: detect its MPI library. With another implementation's launcher, each process would silently
# be rank 0 of 1.
pl_check_program() {
    pl_linked='' pl_whose=''
    pl_file=$(command -v "${1-}" 2>/dev/null)
    [ -f "$pl_file" ] || return 0
    pl_libraries=$(ldd "$pl_file" 2>/dev/null) ||
        pl_libraries=$(LC_ALL=C grep -a -o -E 'lib[A-Za-z0-9_-]+\.so[.0-9]*' "$pl_file" 2>/dev/null)
    pl_find_library "$pl_libraries "
    case " $pl_accepted " in "  " | *" $pl_linked "*) return 0 ;; esac
    [ -z "$pl_linked" ] || pl_note "The program was built with $pl_whose, but started by $pl_launcher_title. Each rank may run as if it were the only one. Choose the MPI implementation that it was built with."
}

pl_become() {
    exec "$pl_launcher" "$@" /bin/sh "$pl_directory/rank.sh" "$pl_directory" "$pl_run"
}

pl_one_run() {
    mkdir -p "$pl_directory/run$pl_run" || return 1
    # The staged files remain unchanged: no run starts in work itself.
    [ -z "$pl_fresh" ] || cp -RPp "$pl_directory/work" "$pl_directory/work$pl_run" 2>>"$pl_directory/output" || return 1
    pl_state=$pl_directory/run$pl_run/state
    pl_say state running
    pl_say_now start
    if [ -n "$pl_flavour" ]; then
        (pl_launch) </dev/null >>"$pl_directory/output" 2>&1 &
    else
        (pl_as_found /bin/sh "$pl_directory/rank.sh" "$pl_directory" "$pl_run") \
            </dev/null >>"$pl_directory/output" 2>&1 &
    fi
    pl_child=$!
    # A signal may have arrived before there was a process to end.
    [ -z "$pl_stopped" ] || pl_ask
    pl_wait "$pl_child"
    pl_child=''
    pl_forget "$pl_press"
    pl_press=''
    pl_say exit "$pl_status"
    pl_say_now end
    pl_say state ended
    [ -z "$pl_flavour" ] || pl_wait_for_ranks
    pl_until=9999999999
    pl_ended=$pl_status
    [ -z "$pl_flavour" ] || pl_read_rest "$pl_run" "$pl_host" >/dev/null
    pl_status=$pl_ended
    pl_state=$pl_own_state
    [ "$pl_status" -eq 0 ] || pl_worst=$pl_status
}

# If a rank failed, its launcher kills the others and ends; they still complete their recordings. Of ranks on other hosts,
# only the files are visible.
pl_wait_for_ranks() {
    pl_rounds=0
    while [ "$pl_rounds" -lt 600 ]; do
        pl_rounds=$((pl_rounds + 1))
        # The names of ranks' directories are safe: numbers and sanitized host names.
        pl_open=$(cd "$pl_directory/run$pl_run" && grep -L -x 'state done' ./*/state 2>/dev/null)
        [ -n "$pl_open" ] || return 0
        pl_marked "PERFLOOM_JOB=$pl_id"
        if [ -z "$pl_pids" ]; then
            # shellcheck disable=SC2086
            pl_open=$(cd "$pl_directory/run$pl_run" && grep -L -x -F "host $pl_host" $pl_open)
            [ -n "$pl_open" ] && [ "$pl_rounds" -lt 15 ] || return 0
        fi
        [ -z "$pl_stopped" ] || [ "$pl_rounds" -lt "$pl_grace" ] || return 0
        sleep 1
    done
}

pl_worst=0
pl_runs_of "$pl_number"
for pl_run in $pl_runs; do
    [ -z "$pl_stopped" ] || break
    pl_one_run
done
# A batch system that stopped the job must not consider it successful, whatever the program's status is.
case $pl_stopped in
'') ;;
INT) pl_worst=130 ;;
*) pl_worst=143 ;;
esac
pl_forget "$pl_life"
pl_say exit "$pl_worst"
pl_say_now end
exit "$pl_worst"
