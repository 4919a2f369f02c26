# shellcheck shell=sh disable=SC2154
# Creates the directory pl_directory of a job; its file .perfloom begins with pl_mark.

pl_parent=${pl_directory%/*}
mkdir -p "${pl_parent:-/}" || exit 1
if ! pl_said=$(mkdir "$pl_directory" 2>&1); then
    if [ -L "$pl_directory" ] || [ ! -d "$pl_directory" ]; then
        printf '%s\n' "$pl_said" >&2
        exit 1
    fi
    if [ ! -O "$pl_directory" ] || [ ! -f "$pl_directory/.perfloom" ]; then
        printf '%s already exists and belongs to another job. Choose another directory for jobs.\n' "$pl_directory" >&2
        exit 1
    fi
fi
chmod 700 "$pl_directory" && printf '%s\n' "$pl_mark" >"$pl_directory/.perfloom" && mkdir -p "$pl_directory/work" &&
    [ -s "$pl_directory/.perfloom" ]
