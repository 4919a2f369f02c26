# shellcheck shell=sh disable=SC2154
# One request for all jobs of all partitions, as squeue makes anyway for more than one id. They are sorted by partition and
# priority, so that pending jobs before ours can be counted. If the first of them waits for a higher priority, that job is
# hidden (PrivateData), and the number is unknown. A last line proves that the output is complete.

{ squeue --noheader --states=all --sort=P,-p,i --format='%i|%T|%P|%N|%S|%r'; echo "status|$?"; } |
awk -F'|' -v ids="$*" '
BEGIN { n = split(ids, words, " "); for (i = 1; i <= n; i++) ours[words[i]] = 1 }
$1 == "status" && NF == 2 { status = $2; next }
{
    place = ""; at = $3
    if ($2 == "PENDING" && ($6 == "None" || $6 == "Priority" || $6 == "Resources")) {
        if (!(at in before)) { before[at] = 0; hidden[at] = $6 == "Priority" }
        if (!hidden[at]) place = before[at]
        before[at]++
    }
    if ($1 in ours) print $1 "|" place "|" substr($0, length($1) + 2)
}
END { if (status == 0) print "end"; exit status }
'
