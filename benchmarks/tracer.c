/* What one event of perfloom_trace.h costs, beside reading the clock alone. Prints lines "what nanoseconds". */
#define _GNU_SOURCE
#include "perfloom_trace.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

#define MEASURE(what, events, body)                                                             \
    do {                                                                                        \
        double best = 1e18;                                                                     \
        for (int round = 0; round < 5; round++) {                                               \
            double start = now_ns();                                                            \
            for (long i = 0; i < count; i++) { body; }                                          \
            double took = (now_ns() - start) / (double)count / (events);                        \
            if (took < best) best = took;                                                       \
        }                                                                                       \
        printf("%s %.2f\n", what, best);                                                        \
    } while (0)

int main(int argc, char **argv) {
    long count = argc > 1 ? atol(argv[1]) : 200000;
    volatile long sum = 0;
    char mark[64];
    struct timespec time;
    MEASURE("nothing", 1, sum += i);
    MEASURE("clock_gettime", 1, { clock_gettime(CLOCK_MONOTONIC, &time); sum += time.tv_nsec; });
    start_tracing_session();
    MEASURE("PERFLOOM_SCOPE", 2, { PERFLOOM_SCOPE("matmul_ffn_up-12"); sum += i; });
    MEASURE("begin_trace,end_trace", 2, { begin_trace("matmul_ffn_up-12", mark); sum += i; end_trace(mark); });
    MEASURE("PERFLOOM_COUNTER", 1, PERFLOOM_COUNTER("tokens", i));
    stop_tracing_session("trace.txt");
    return 0;
}
