# shellcheck shell=sh
# Variables that are set here and used in other files, and vice versa, are not visible from one file.
# shellcheck disable=SC2034,SC2154
# Shared by job.sh, rank.sh and the scripts that poll, collect and cancel a job; copied to the target after modules.sh. The
# same for every job; plan.sh is what differs.
# All names begin with pl_, so that variables of the user's program are not changed.

# The standard tools are found whatever the job's PATH is. pl_path: the PATH of the job.
pl_path=${PATH-}
PATH=${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin
pl_umask=$(umask)
umask 077
unset CDPATH

# pl_now: set pl_time to the time in nanoseconds since the epoch; in whole seconds if date does not support nanoseconds.
pl_now() {
    pl_time=$(date +%s%N)
    case $pl_time in
    '' | *[!0-9]*) pl_time=$(date +%s)000000000 ;;
    ??????????) pl_time=${pl_time}000000000 ;;
    esac
}

# pl_say KEY VALUE: append a line to the state file, and to the one in pl_also. Errors such as full disks are ignored.
pl_also=''
pl_say() {
    pl_say_here "$1" "$2"
    [ -z "$pl_also" ] || { printf '%s %s\n' "$1" "$2" >>"$pl_also"; } 2>/dev/null || :
}

pl_say_here() {
    { printf '%s %s\n' "$1" "$2" >>"$pl_state"; } 2>/dev/null || :
}

pl_say_now() {
    pl_now
    pl_say "$1" "$pl_time"
}

# pl_note TEXT: append a note for the user, on one line. It may contain output of a program.
pl_note() {
    pl_say_here note "$(pl_one_line "$1")"
}

pl_one_line() {
    printf '%s' "$1" | LC_ALL=C tr '\000-\037\177' ' ' | LC_ALL=C cut -c 1-400
}

# pl_find_scratch RUN RANK: create the directory of a recording on this host's local disk, and set pl_out to it; after an
# error pl_out is empty, and pl_notes has the reason.
pl_find_scratch() {
    pl_notes='' pl_out=''
    # The path may contain variables of this host; an unset one ends the subshell.
    if ! pl_scratch=$(pl_scratch_path 2>&1) || [ "${pl_scratch#/}" = "$pl_scratch" ]; then
        pl_notes="The scratch directory does not exist on $(uname -n) ($pl_scratch). It was not used."
        return 1
    fi
    pl_out=$pl_scratch/perfloom-$pl_id-$1-$2
    if ! pl_said=$( (mkdir -p "$pl_scratch" && pl_own "$pl_out") 2>&1); then
        pl_notes="The scratch directory cannot be used on $(uname -n): $pl_said. It was not used."
        pl_out=''
        return 1
    fi
}

# pl_own DIRECTORY: whether it belongs to this user, after an earlier attempt or now. Links are rejected.
pl_own() {
    if [ -O "$1" ] && [ ! -L "$1" ]; then return 0; fi
    mkdir "$1"
}

# pl_as_found COMMAND …: execute it with the original PATH and umask.
pl_as_found() {
    PATH=$pl_path
    umask "$pl_umask"
    exec "$@"
}

# pl_full DIRECTORY: whether its disk has less than 1 MB of free space.
pl_full() {
    pl_free=$(df -P -k "$1" 2>/dev/null | tail -n 1 | sed 's/.* \([0-9][0-9]*\)  *[0-9]*% .*/\1/')
    case $pl_free in '' | *[!0-9]*) return 1 ;; esac
    [ "$pl_free" -lt 1024 ]
}

# pl_bring FROM TO: move the recordings from this host's local disk to the job's directory.
pl_bring() {
    [ "$1" != "$2" ] || return 0
    pl_kept=''
    pl_artifacts "$1" pl_bring_files "$2"
    if [ -n "$pl_kept" ]; then
        pl_note "These files could not be copied from $1 on $(uname -n) and are still there:$pl_kept. $pl_said"
    else
        rm -rf "$1"
    fi
}

# pl_bring_files TO FILE …: those of the files that there are; in pl_kept the names of those that cannot be copied.
pl_bring_files() {
    pl_to=$1
    shift
    for pl_each in "$@"; do
        [ -f "$pl_each" ] || continue
        if pl_said=$(cp "$pl_each" "$pl_to/.part" 2>&1) && mv -f "$pl_to/.part" "$pl_to/${pl_each##*/}"; then
            rm -f "$pl_each"
        else
            rm -f "$pl_to/.part"
            pl_kept="$pl_kept ${pl_each##*/}"
        fi
    done
}

# pl_read_rest RUN HOST: convert recordings to text that the ranks of a run on this host did not convert. RUN may be *.
# With an empty HOST, those of all hosts. Prints a line for each. Returns 1 after the time pl_until (epoch seconds).
pl_read_rest() {
    # shellcheck disable=SC2231
    for pl_state in "$pl_directory"/run$1/*/state; do
        pl_place=${pl_state%/state}
        if [ -L "$pl_place" ] || pl_has_text "$pl_place"; then continue; fi
        pl_there=1
        grep -q -x -F "host $pl_host" "$pl_state" 2>/dev/null || pl_there=''
        [ -n "$pl_there" ] || [ -z "$2" ] || continue
        [ -z "$pl_there" ] || pl_bring_rest
        [ "$pl_artefact" = perf.data ] || continue
        if [ ! -s "$pl_place/perf.data" ] || [ -L "$pl_place/perf.data" ]; then continue; fi
        grep -q -e '^text failed' -e '^text tables' "$pl_state" && continue
        pl_now
        [ "${pl_time%?????????}" -lt "$pl_until" ] || return 1
        # A recording whose conversion was killed twice is not retried.
        pl_in=$pl_place
        if [ -e "$pl_place/.twice" ]; then
            pl_part=$pl_place/.part
            pl_bad "perf script was ended each time it read this recording. Is it too large for $pl_host?" || :
            printf '%s failed\n' "$pl_place"
            continue
        fi
        # Not with a colon: a failed redirection of a special built-in ends the shell.
        if [ -e "$pl_place/.once" ]; then true >"$pl_place/.twice"; else true >"$pl_place/.once"; fi
        [ -n "$pl_there" ] ||
            pl_note "The recording was read on $pl_host, not where it was made. Names of functions may be missing."
        if pl_read "$pl_place"; then
            printf '%s ok\n' "$pl_place"
            [ -n "$pl_keep" ] || rm -f "$pl_place/perf.data"
        else
            printf '%s failed\n' "$pl_place"
        fi
        rm -f "$pl_place/.once" "$pl_place/.twice"
        [ -z "$pl_there" ] || pl_remove_names "$pl_place/names"
    done
    return 0
}

# Fetch the files of a killed rank, also from this host's local disk. An injected recorder may still be writing.
pl_bring_rest() {
    if grep -q -x 'state done' "$pl_state" && [ "$pl_artefact" != perf.data ]; then return 0; fi
    if [ -e "$pl_place/perf.data" ]; then return 0; fi
    pl_its_run=${pl_place%/*}
    pl_its_run=${pl_its_run##*/run}
    [ -z "$pl_injects" ] || pl_kill_part "$pl_id/$pl_its_run/${pl_place##*/}/" "$pl_stop_timeout" || :
    pl_take_notes "$pl_place"
    pl_take_notes "$pl_place/names"
    if [ -n "$pl_has_scratch" ] && pl_find_scratch "$pl_its_run" "${pl_place##*/}"; then
        pl_take_notes "$pl_out"
        pl_bring "$pl_out" "$pl_place"
    fi
}

# pl_take_notes DIRECTORY: append the notes of an injected recorder to the state.
pl_take_notes() {
    for pl_each in "$1"/*.note; do
        [ -f "$pl_each" ] || continue
        while IFS='' read -r pl_line; do pl_note "$pl_line"; done <"$pl_each"
        rm -f "$pl_each"
    done
}

# pl_remove_names DIRECTORY: remove the names of functions that interpreters left for perf: there, and in /tmp those of the
# processes that say so there.
pl_remove_names() {
    for pl_each in "$1"/map-*; do
        pl_each=/tmp/perf-${pl_each##*/map-}.map
        if [ -O "$pl_each" ] && [ ! -L "$pl_each" ]; then rm -f "$pl_each"; fi
    done
    # With one recording per host, other ranks may still write there.
    [ -n "$pl_per_host" ] || rm -rf "$1"
}

# pl_kill_part PART SECONDS: send TERM to the processes of a part, and KILL after that time. Fails if there are none.
pl_kill_part() {
    pl_kill TERM "PERFLOOM_PART=$1" || return 1
    pl_tries=$(($2 * 20))
    while pl_nap && pl_kill CONT "PERFLOOM_PART=$1" && [ "$pl_tries" -gt 0 ]; do
        pl_tries=$((pl_tries - 1))
    done
    pl_kill KILL "PERFLOOM_PART=$1" || :
}

# pl_nap: wait a moment.
pl_nap() {
    sleep 0.05 2>/dev/null || sleep 1
}

# pl_find_host: set pl_host to the name of this host, in a form that is valid as a file name.
pl_find_host() {
    pl_host=$(uname -n | LC_ALL=C tr -c 'A-Za-z0-9._\n-' '_' | cut -c 1-100)
    : "${pl_host:=unknown}"
}

# pl_born PID: set pl_ticks to the start time of a process (in ticks since boot), empty if it does not exist, and
# pl_condition to its state, such as R, T or Z. The name in the line may contain anything, so its last parenthesis counts.
pl_born() {
    pl_ticks='' pl_condition=''
    { IFS='' read -r pl_line <"/proc/$1/stat"; } 2>/dev/null || return 1
    pl_line=${pl_line##*) }
    pl_condition=${pl_line%% *}
    # shellcheck disable=SC2086
    pl_nth 20 $pl_line
    pl_ticks=$pl_found
}

pl_nth() {
    shift "$1"
    pl_found=${1-}
}

pl_find_boot() {
    pl_boot=''
    { read -r pl_boot </proc/sys/kernel/random/boot_id; } 2>/dev/null || :
    : "${pl_boot:=none}"
}

# pl_alive PID TICKS: whether the process with that start time is alive.
pl_alive() {
    pl_born "$1" && [ "$pl_ticks" = "$2" ] && [ "$pl_condition" != Z ]
}

# pl_marked TEXT: set pl_pids to the other processes of this user that were started with that text in their environment.
pl_marked() {
    pl_pids=''
    # shellcheck disable=SC2013
    for pl_each in $(LC_ALL=C grep -l -F -e "$1" /proc/[0-9]*/environ 2>/dev/null); do
        pl_each=${pl_each#/proc/}
        pl_each=${pl_each%/environ}
        # Not this process, or grep, which has ended; and not zombies.
        if [ "$pl_each" = $$ ] || ! pl_born "$pl_each" || [ "$pl_condition" = Z ]; then continue; fi
        pl_pids="$pl_pids $pl_each"
    done
}

# pl_kill SIGNAL TEXT [PID …]: send a signal to all marked processes, except for those PIDs.
pl_kill() {
    pl_signal=$1
    pl_marked "$2"
    shift 2
    pl_left=''
    for pl_each in $pl_pids; do
        case " $* " in *" $pl_each "*) continue ;; esac
        kill -s "$pl_signal" "$pl_each" 2>/dev/null && pl_left="$pl_left $pl_each"
        [ "$pl_signal" = KILL ] || kill -s CONT "$pl_each" 2>/dev/null
    done
    [ -n "$pl_left" ]
}

# pl_wait PID: wait until it has ended, also if signals interrupt the wait; its status is in pl_status.
pl_wait() {
    pl_interrupted=''
    wait "$1"
    pl_status=$?
    # A trapped signal ends `wait` with a status above 128. The next `wait` returns the status of the process, or 127 if
    # the first one had returned it already.
    while [ -n "$pl_interrupted" ]; do
        pl_interrupted=''
        wait "$1"
        pl_again=$?
        [ "$pl_again" -eq 127 ] || pl_status=$pl_again
    done
}

# pl_later SECONDS COMMAND …: run a command later, in the background process pl_timer; pl_forget PID ends that process. The
# command must wait with pl_sleep, so that no sleep outlives it.
pl_later() {
    (
        pl_before=$!
        trap '[ "$!" = "$pl_before" ] || kill -s KILL "$!" 2>/dev/null; exit 0' TERM
        trap '' INT HUP USR1 USR2
        # Not every sleep supports fractions of a second.
        pl_seconds=$1
        case $1 in *.*) sleep 0.01 2>/dev/null || pl_seconds=$((${1%%.*} + 1)) ;; esac
        pl_sleep "$pl_seconds"
        shift
        "$@"
    ) </dev/null >/dev/null 2>&1 &
    pl_timer=$!
}

# pl_sleep SECONDS: interruptible sleep. A trap runs immediately during `wait`, but only after the end of a foreground
# command. It may run between any two lines, so the sleeping process is identified by $! alone.
pl_sleep() {
    sleep "$1" &
    wait "$!"
    pl_before=$!
}

# pl_forget PID: end it. Repeated until it has ended: a signal to a shell that was just forked may be lost.
pl_forget() {
    [ -n "$1" ] || return 0
    while kill "$1" 2>/dev/null && pl_born "$1" && [ "$pl_condition" != Z ]; do (:); done
    wait "$1" 2>/dev/null || :
}

# pl_enter RUN: set up the environment of the user's program in this (sub)shell: modules, variables, paths, umask,
# directory. Exits with 125 after an error. Not repeated if a launcher of ranks has inherited it.
pl_enter() {
    PATH=$pl_path
    umask "$pl_umask"
    if [ "${PERFLOOM_READY-}" != "$pl_id/$1" ]; then
        pl_modules
        pl_environment "$1"
        pl_prefixes
        PERFLOOM_READY=$pl_id/$1
        export PERFLOOM_READY
    fi
    PERFLOOM_JOB=$pl_id
    export PERFLOOM_JOB
    [ -z "$pl_fresh" ] || pl_cwd=$pl_directory/work$1
    cd "$pl_cwd" || {
        echo "perfloom: The working directory $pl_cwd cannot be entered on $(uname -n). Choose another." >&2
        exit 125
    }
}

# pl_prefix VARIABLE TEXT: prepend it to the value.
pl_prefix() {
    eval "pl_had=\${$1-}"
    eval "$1=\$2\${pl_had:+:\$pl_had}"
    # shellcheck disable=SC2163
    export "$1"
}

# pl_module NAME: load it, or exit with 125.
pl_module() {
    pl_find_modules || {
        echo "perfloom: The module $1 cannot be loaded: $(uname -n) has no module command. Remove the module from" \
            "the job, or ask how to enable modules there." >&2
        exit 125
    }
    # Old versions exit with 0 after errors, too, and only print them to standard error.
    pl_said=$(mktemp) || pl_said=/dev/null
    module load "$1" 2>"$pl_said"
    pl_status=$?
    cat "$pl_said" >&2
    if [ "$pl_status" -ne 0 ] || grep -q -e ERROR -e 'error:' "$pl_said"; then
        [ "$pl_said" = /dev/null ] || rm -f "$pl_said"
        echo "perfloom: The module $1 could not be loaded on $(uname -n). See the output of module above." >&2
        exit 125
    fi
    [ "$pl_said" = /dev/null ] || rm -f "$pl_said"
}

# pl_plain COMMAND …: execute it with the default INT and QUIT, which the shell ignores in background processes.
pl_plain() {
    if env --default-signal=INT,QUIT true 2>/dev/null; then
        # Not with env itself, which would interpret a program's name with = as a variable.
        exec env --default-signal=INT,QUIT /bin/sh -c 'exec "$@"' sh "$@"
    fi
    exec "$@"
}

# pl_find_packer: set pl_packer to the compressor of this host, and pl_suffix to its file suffix.
pl_find_packer() {
    if command -v zstd >/dev/null 2>&1; then
        pl_packer='zstd -q -c -3' pl_suffix=.zst
    elif command -v gzip >/dev/null 2>&1; then
        pl_packer='gzip -c -4' pl_suffix=.gz
    else
        pl_packer=cat pl_suffix=''
    fi
}

# pl_unpack FILE: print its decompressed text.
pl_unpack() {
    case $1 in
    *.zst*) zstd -q -d -c "$1" ;;
    *.gz*) gzip -d -c "$1" ;;
    *) cat "$1" ;;
    esac
}

# pl_has_text DIRECTORY: whether the recording was converted to text.
pl_has_text() {
    [ -f "$1/perf.script.zst" ] || [ -f "$1/perf.script.gz" ] || [ -f "$1/perf.script" ]
}

# pl_read DIRECTORY: convert DIRECTORY/perf.data to text with perf script, in DIRECTORY. Older perfs and some recordings
# support fewer fields and options: rejected ones are left out one by one. Writes the result to the state.
pl_read() {
    pl_in=$1 pl_cut=''
    ! pl_mend "$pl_in/perf.data" || pl_cut=1
    pl_find_packer
    pl_part=$pl_in/.perf.script.part$pl_suffix
    pl_try=0
    pl_with_fields=$pl_fields pl_with_options=$pl_options
    while [ "$pl_try" -lt 12 ]; do
        pl_try=$((pl_try + 1))
        { true >"$pl_in/.status"; } 2>/dev/null || break
        # shellcheck disable=SC2086
        {
            pl_script -F "$pl_with_fields" $pl_with_options 2>"$pl_in/.errors"
            pl_status=$?
            { echo "$pl_status" >"$pl_in/.status"; } 2>/dev/null
            [ "$pl_status" -eq 0 ] || pl_defect "$(tail -n 1 "$pl_in/.errors") (status $pl_status)"
            [ -z "$pl_cut" ] || pl_defect "perf was ended before it could complete its file"
        } | $pl_packer >"$pl_part" 2>"$pl_in/.packing" || break
        read -r pl_status <"$pl_in/.status" || pl_status=1
        [ "$pl_status" -eq 0 ] && pl_good "" && return 0
        pl_said=$(head -c 4000 "$pl_in/.errors")
        pl_less || break
    done
    { read -r pl_status <"$pl_in/.status"; } 2>/dev/null || pl_status=1
    if [ -s "$pl_in/.packing" ] || [ ! -s "$pl_part" ]; then
        pl_said=$(head -c 300 "$pl_in/.packing" 2>/dev/null)
        pl_bad "The text of the recording could not be written to $pl_in: ${pl_said:-is its disk full?}"
    elif pl_unpack "$pl_part" 2>/dev/null | LC_ALL=C grep -q '^[^#]'; then
        pl_good "perf script did not come to the end of the recording (status $pl_status)."
    else
        pl_bad "perf script ended with status $pl_status: $(tail -n 3 "$pl_in/.errors")"
    fi
}

# Runs perf script in the recording's directory, without the user's configuration and without debuginfod.
pl_script() (
    cd "$pl_in" || exit 1
    unset DEBUGINFOD_URLS LD_PRELOAD
    LC_ALL=C PERF_CONFIG=/dev/null exec "$pl_perf" script -i perf.data "$@" </dev/null
)

# Prints a comment line that the reader of the text evaluates.
pl_defect() {
    printf '\n# %s : The recording is incomplete: %s.\n' "$pl_incomplete" "$(pl_one_line "$1")"
}

# pl_mend FILE: repair the header of a recording whose perf was killed. Its data size is 0, so perf script reads nothing.
# Set it to everything after the header except for an incomplete last record (perf would read beyond it and crash), and
# clear the feature bits. Fails if nothing had to be repaired. Layout: perf.data-file-format.txt; 8 bytes each: magic, size
# of the header, …, at 40 offset and size of the data, at 72 the feature bits.
pl_mend() {
    [ "$(head -c 8 "$1")" = PERFILE2 ] || return 1
    # 8-byte words, little-endian; with another byte order, the size of the header has another value.
    # shellcheck disable=SC2046
    set -- "$1" $(od -A n -v -t u8 -j 8 -N 48 "$1" 2>/dev/null)
    [ $# -eq 7 ] && [ "$2" = 104 ] && [ "$7" = 0 ] || return 1
    [ "$(printf '\001\000' | od -A n -t u2 | tr -d ' ')" = 1 ] || return 1
    pl_rest=$(($(wc -c <"$1") - $6))
    [ "$pl_rest" -gt 0 ] || return 1
    pl_whole=''
    [ "$pl_rest" -gt 100000000 ] || pl_whole=$(pl_whole_records "$1" "$6")
    : "${pl_whole:=$pl_rest}"
    pl_bytes=''
    while [ "${#pl_bytes}" -lt 32 ]; do
        pl_bytes="$pl_bytes\\$(printf %03o $((pl_whole % 256)))"
        pl_whole=$((pl_whole / 256))
    done
    # shellcheck disable=SC2059
    printf "$pl_bytes" | dd of="$1" bs=1 seek=48 conv=notrunc 2>/dev/null &&
        dd if=/dev/zero of="$1" bs=1 seek=72 count=32 conv=notrunc 2>/dev/null
}

# pl_whole_records FILE OFFSET: print the bytes of complete records from OFFSET on. A record begins with a type (4 bytes),
# flags (2) and its size (2), a multiple of 8. Prints nothing for other data (compressed records).
pl_whole_records() {
    od -A n -v -t u2 -w8 -j "$2" "$1" 2>/dev/null | awk '
        NF == 4 { units++ }
        NF == 4 && units > end { if ($4 < 8 || $4 % 8) { odd = 1; exit } start = end; end += $4 / 8 }
        END { if (!odd) printf "%.0f\n", 8 * (end > units ? start : end) }'
}

pl_good() {
    rm -f "$pl_in/.status" "$pl_in/.errors" "$pl_in/.packing"
    mv -f "$pl_part" "$pl_in/perf.script$pl_suffix" || return 1
    pl_list_builds
    pl_say_here text ok
    [ -z "$1" ] || pl_note "$1"
}

# Writes the build ids of the recording's binaries next to its text: the recording itself may be removed.
pl_list_builds() {
    (
        cd "$pl_in" || exit 1
        unset DEBUGINFOD_URLS LD_PRELOAD
        LC_ALL=C PERF_CONFIG=/dev/null exec "$pl_perf" buildid-list -f -i perf.data </dev/null 2>/dev/null
    ) | head -c 4000000 >"$pl_in/.builds" && mv -f "$pl_in/.builds" "$pl_in/build-ids.txt"
}

pl_bad() {
    rm -f "$pl_part" "$pl_in/.status" "$pl_in/.errors" "$pl_in/.packing"
    pl_say_here text "failed $(pl_one_line "$1")"
    return 1
}

# pl_less: remove the field or option that perf rejected (pl_said); fails if it rejected none.
pl_less() {
    pl_comma=,$pl_with_fields,
    case $pl_said in
    *"Cannot print '"*)
        pl_field=${pl_said#*"Cannot print '"}
        pl_field=${pl_field%%"'"*}
        case $pl_field in comm | event) return 1 ;; esac
        ;;
    *"unknown option "*)
        pl_option=${pl_said#*"unknown option "}
        pl_option=${pl_option#?}
        pl_option=--${pl_option#--}
        pl_option=${pl_option%%[!a-z-]*}
        case " $pl_with_options " in
        *" $pl_option "*) ;;
        *) return 1 ;;
        esac
        pl_comma=" $pl_with_options "
        pl_with_options=${pl_comma%%" $pl_option "*}" "${pl_comma#*" $pl_option "}
        return 0
        ;;
    *[Ii]"nvalid field requested"* | *"unknown field"* | *[Ii]"nvalid -F"*)
        case $pl_comma in *,brstacksym,*) pl_field=brstacksym ;; *) pl_field=symoff ;; esac
        ;;
    *) return 1 ;;
    esac
    case $pl_comma in
    *,"$pl_field",*) ;;
    *) return 1 ;;
    esac
    pl_with_fields=${pl_comma%%,"$pl_field",*},${pl_comma#*,"$pl_field",}
    pl_with_fields=${pl_with_fields#,}
    pl_with_fields=${pl_with_fields%,}
}
