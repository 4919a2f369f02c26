# shellcheck shell=sh disable=SC2154
# What every command at a target has around it: its variables, then its modules. See around.py, which writes what stands
# before this: pl_load, pl_export and those of modules.sh. Nothing is printed but by pl_load.

# pl_surround: set variables and load modules, as far as they can be had.
pl_surround() {
    pl_export
    if [ -n "$pl_modules" ] && pl_find_modules; then
        pl_load >/dev/null 2>&1 </dev/null
    fi
    return 0
}
