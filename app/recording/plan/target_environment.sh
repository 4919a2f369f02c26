# shellcheck shell=sh disable=SC2154
# The environment of every command at a target: its variables, then its modules. target_environment.py generates pl_load and
# pl_export before this. Only pl_load prints.

# pl_set_environment: set variables and load modules, as far as possible.
pl_set_environment() {
    pl_export
    if [ -n "$pl_modules" ] && pl_find_modules; then
        pl_load >/dev/null 2>&1 </dev/null
    fi
    return 0
}
