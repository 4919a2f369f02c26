# shellcheck shell=sh disable=SC2154
# Prints size and path of each file that matches one of the patterns pl_names.

# Network file systems cache directories; a change refreshes them, so that new files of other hosts are visible.
for pl_place in . ./run*; do
    [ -L "$pl_place" ] || { mkdir "$pl_place/.look" && rmdir "$pl_place/.look"; } 2>/dev/null
done
# Only names that Perfloom's scripts create are printed, so each line is a file. Links could lead out of the directory.
for pl_file in $pl_names; do
    case ${pl_file#./} in *[!A-Za-z0-9._/-]*) continue ;; esac
    pl_place=${pl_file%/*}
    if [ -s "$pl_file" ] && [ -f "$pl_file" ] && [ ! -L "$pl_file" ] && [ ! -L "$pl_place" ]; then
        [ -L "${pl_place%/*}" ] || echo "$pl_file"
    fi
done | LC_ALL=C xargs wc -c /dev/null
