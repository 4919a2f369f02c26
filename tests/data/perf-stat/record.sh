#!/bin/sh
# Records the files *.json, *.csv and *.txt of this folder but those named by-hand-*: perf 6.1 on a machine that has
# no hardware counters, as root. Run in this folder.
set -eu
events=task-clock,page-faults,context-switches,cycles,instructions
work="python3 -c sum(range(10**6))"
perf stat -j -o run.json -e $events -- $work
perf stat -x, -o run.csv -e $events -- $work
perf stat -o run.txt -e $events -- $work
perf stat -j -r 3 -o repeat.json -e task-clock,page-faults,cycles -- $work
perf stat -x';' -r 3 -o repeat.csv -e task-clock,page-faults,cycles -- $work
perf stat -r 3 -o repeat.txt -e task-clock,page-faults,cycles -- $work
perf stat -j -I 50 --summary -o interval.json -e task-clock,page-faults -- sleep 0.12
perf stat -x, -I 50 --summary -o interval.csv -e task-clock,page-faults -- sleep 0.12
perf stat -I 50 -o interval.txt -e task-clock,page-faults -- sleep 0.12
perf stat -j -a -A -I 50 -o cpu.json -e cpu-clock,page-faults -- sleep 0.08
perf stat -x, -a -A -o cpu.csv -e cpu-clock,page-faults -- sleep 0.05
perf stat -a -A -o cpu.txt -e cpu-clock,page-faults -- sleep 0.05
perf stat -j -a --per-core -o core.json -e cpu-clock,page-faults -- sleep 0.05
perf stat -x, -a --per-core -o core.csv -e cpu-clock,page-faults -- sleep 0.05
perf stat -a --per-core -o core.txt -e cpu-clock,page-faults -- sleep 0.05
perf stat -x, -a --per-node -o node.csv -e cpu-clock -- sleep 0.05
python3 -c '
import threading, time
end = time.monotonic() + 2
def work():
    while time.monotonic() < end:
        sum(range(1000))
for name in "ab":
    threading.Thread(target=work).start()
' &
sleep 0.5
perf stat -j --per-thread -o thread.json -e task-clock,page-faults -p $! -- sleep 0.1
perf stat -x, --per-thread -o thread.csv -e task-clock,page-faults -p $! -- sleep 0.1
perf stat --per-thread -o thread.txt -e task-clock,page-faults -p $! -- sleep 0.1
wait
perf stat -j --for-each-cgroup / -a -o cgroup.json -e task-clock -- sleep 0.05
perf stat -x, --for-each-cgroup / -a -o cgroup.csv -e task-clock -- sleep 0.05
perf stat -j -o times.json -e duration_time,user_time,sched:sched_switch -- $work
