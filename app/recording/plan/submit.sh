# shellcheck shell=sh disable=SC2154
# Submits submission pl_number to the batch system with pl_submit, once, and prints its answer; pl_half: printed if it was
# begun and has no answer.
# The answer is stored, and printed again if the script is repeated.

pl_answer=$pl_directory/sub$pl_number
cd "$pl_directory" || exit 1
if mkdir "$pl_answer.begun" 2>/dev/null; then
    PATH=$pl_path
    export PATH
    pl_submit </dev/null >"$pl_answer.answer" 2>"$pl_answer.errors"
    echo $? >"$pl_answer.part"
    PATH=$PATH:/usr/bin:/bin
    mv -f "$pl_answer.part" "$pl_answer.status"
fi
if ! pl_wait_for "$pl_answer.status"; then
    echo "$pl_half"
    exit 0
fi
cat "$pl_answer.answer"
cat "$pl_answer.errors" >&2
read -r pl_status <"$pl_answer.status"
exit "${pl_status:-1}"
