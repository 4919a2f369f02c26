# shellcheck shell=sh disable=SC2154
# -json needs 10.1 with fix pack 2. An older bjobs rejects it without a request to its master; then use the old format.

said=$(bjobs -a -o 'jobid stat queue exec_host exit_code exit_reason pend_reason' -json "$@" 2>&1)
status=$?
case $said in
*'"RECORDS"'*) printf '%s\n' "$said"; exit 0 ;;
esac
if [ "$status" = 127 ] || printf '%s\n' "$said" | grep -q -i -e connect -e 'is down' -e 'please wait' -e library; then
    printf '%s\n' "$said" >&2
    exit "$status"
fi
bjobs -a -noheader -o "jobid stat exit_code exec_host delimiter='^'" "$@"
