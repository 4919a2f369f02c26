# Probes a target. Runs there, in any POSIX sh, and prints sections: see probe.py, which generates the preceding probe_mark,
# probe_perf, probe_sudo, probe_makes, the functions directory, scratch, each_launcher, each_program and queues, and those
# of recording/plan/target_environment.sh. Variables begin with probe_, because those of the target are set, too.
# shellcheck shell=sh disable=SC2086,SC2154

umask 077
PATH=${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin

# The output of programs must not depend on the user's settings.
plain() {
    export LC_ALL=C PAGER=cat TERM=dumb COLUMNS=250
}

plain

# A prefix that ends a command after a timeout, if the program timeout exists.
probe_limit=
if timeout -k 2 2 true >/dev/null 2>&1; then
    probe_limit='timeout -k 2 20'
fi

# begin NAME, end STATUS: delimit a section, on separate lines, whatever was printed before.
begin() {
    printf '\n%s begin %s\n' "$probe_mark" "$1"
}

end() {
    printf '\n%s end %s\n' "$probe_mark" "$1"
    return "$1"
}

# say NAME COMMAND...: print a section with its standard output and errors, and its exit status.
say() {
    begin "$1"
    shift
    $probe_limit "$@" 2>&1 </dev/null
    end "$?"
}

# apart NAME COMMAND...: the same with standard error in a separate section.
apart() {
    begin "$1"
    probe_name=$1
    shift
    { probe_problem=$($probe_limit "$@" 2>&1 >&3 3>&- </dev/null); } 3>&1
    end "$?"
    begin "$probe_name-problem"
    printf '%s' "$probe_problem"
    end 0
}

# tell NAME FILE...: print a section with the content of files, each line after the name of its file.
tell() {
    begin "$1"
    shift
    for probe_file in "$@"; do
        if probe_value=$(head -c 4000 "$probe_file" 2>/dev/null); then
            printf '%s %s\n' "${probe_file##*/}" "$probe_value"
        fi
    done
    end 0
}

# ---- the host ----

say host uname -n
say kernel uname -r
say machine uname -m
say os cat /etc/os-release
say cpu sed '/^$/q' /proc/cpuinfo
say cpus getconf _NPROCESSORS_ONLN
say memory sed -n '/^MemTotal:/p' /proc/meminfo
say uid id -u
say user id -un
say rights sed -n '/^Uid:/p;/^Cap/p' "/proc/$$/status"
tell settings /proc/sys/kernel/perf_event_paranoid /proc/sys/kernel/kptr_restrict \
    /proc/sys/kernel/perf_event_max_sample_rate /proc/sys/kernel/perf_event_mlock_kb \
    /proc/sys/kernel/perf_event_max_stack /proc/sys/kernel/perf_cpu_time_max_percent /proc/sys/kernel/nmi_watchdog \
    /proc/sys/kernel/yama/ptrace_scope
tell branches /sys/bus/event_source/devices/cpu*/caps/branches

# ---- the environment of jobs ----

pl_export
plain
if [ -n "$pl_modules" ]; then
    begin modules
    if pl_find_modules; then
        (pl_load) 2>&1 </dev/null
        probe_status=$?
        pl_load >/dev/null 2>&1 </dev/null
        end "$probe_status"
    else
        echo 'There is no command "module".'
        end 127
    fi
fi

# In a subshell: the file that defines "module" may change other things.
begin module-command
if (pl_find_modules) >/dev/null 2>&1; then echo yes; else echo no; fi
end 0

# ---- Python ----

# The first one on PATH, and the version of its PyTorch, from the package metadata, because importing it takes long.
for probe_program in python3 python; do
    if command -v "$probe_program" >/dev/null 2>&1; then
        say python "$probe_program" -c 'import sys
print(sys.executable, flush=True)
from importlib.metadata import version
print(version("torch"))'
        break
    fi
done

# ---- perf ----

# try_perf PROGRAM: whether it is a working perf. A distribution's "perf" may be a script for a perf that is not installed.
try_perf() {
    probe_path=$(command -v "$1" 2>/dev/null) || return 1
    begin perf
    printf '%s\n' "$probe_path"
    probe_version=$($probe_limit "$probe_path" --version 2>&1 </dev/null)
    printf '%s' "$probe_version"
    end 0
    case $probe_version in *'perf version '*) probe_perf=$probe_path ;; *) return 1 ;; esac
}

probe_found=
for probe_program in "$probe_perf" /usr/lib/linux-tools/*/perf; do
    if try_perf "$probe_program"; then
        probe_found=yes
        break
    fi
    # A perf that the user set is used without fallback.
    case $probe_perf in */*) break ;; esac
done

if [ -n "$probe_found" ]; then
    say build "$probe_perf" version --build-options
    say record-help "$probe_perf" record -h
    say stat-help "$probe_perf" stat -h
    say counters "$probe_perf" stat '-x;' -e cycles,instructions -- true
    say user-counters "$probe_perf" stat '-x;' -e cycles:u,instructions:u -- true
    say list-json "$probe_perf" list --json || say list "$probe_perf" list
    if probe_getcap=$(PATH=$PATH:/usr/sbin:/sbin command -v getcap 2>/dev/null); then
        say capabilities "$probe_getcap" "$probe_perf"
    fi
    [ -z "$probe_sudo" ] || say sudo sudo -n "$probe_perf" --version
fi

# ---- places ----

# place NAME FUNCTION MAKE: print a section about a directory. FUNCTION prints its path and a dot, so that trailing line
# breaks are not lost.
place() {
    begin "$1"
    if probe_path=$("$2" 2>&1); then
        probe_path=${probe_path%.}
        printf 'path %s\n' "$probe_path"
        if [ -n "$3" ] && ! probe_problem=$(mkdir -p -- "$probe_path" 2>&1); then
            printf 'problem %s\n' "$probe_problem"
        elif [ ! -d "$probe_path" ]; then
            printf 'problem There is no directory %s.\n' "$probe_path"
        elif ! probe_problem=$(mkdir -- "$probe_path/.probe.$$" 2>&1); then
            printf 'problem %s\n' "$probe_problem"
        else
            if probe_problem=$( (printf '#!/bin/sh\nexit 0\n' >"$probe_path/.probe.$$/run") 2>&1); then
                chmod 700 "$probe_path/.probe.$$/run"
                if "$probe_path/.probe.$$/run" >/dev/null 2>&1; then echo 'runs yes'; else echo 'runs no'; fi
            else
                printf 'problem %s\n' "$probe_problem"
            fi
            rm -rf -- "$probe_path/.probe.$$"
            printf 'system %s\n' "$(stat -f -c %T -- "$probe_path" 2>/dev/null)"
            df -Pk -- "$probe_path" 2>/dev/null || df -Pk "$probe_path" 2>/dev/null
        fi
    else
        printf 'problem %s\n' "$probe_path"
    fi
    end 0
}

place directory directory yes
place scratch scratch "$probe_makes"

# ---- MPI, batch systems, other programs ----

# launcher PROGRAM: print its version. Some only support the older option.
launcher() {
    probe_path=$(command -v "$1" 2>/dev/null) || return 0
    begin launcher
    printf '%s\n%s\n' "$1" "$probe_path"
    probe_version=$($probe_limit "$probe_path" --version 2>&1 </dev/null) ||
        probe_version=$($probe_limit "$probe_path" -version 2>&1 </dev/null)
    printf '%s' "$probe_version" | head -c 2000
    end 0
}

# program NAME: print its path, if it is installed.
program() {
    if probe_path=$(command -v "$1" 2>/dev/null); then
        printf '%s %s\n' "$1" "$probe_path"
    fi
}

each_launcher
each_probe
begin programs
each_program
end 0
each_scheduler
queues
begin complete
end 0
