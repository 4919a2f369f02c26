/* The same calls where nothing is to be recorded. */
#include "perfloom_trace.h"

int work(int value);

int work(int value) {
    char mark[64];
    PERFLOOM_SCOPE("work");
    start_tracing_session();
    begin_trace("inner", mark);
    PERFLOOM_COUNTER("value", value);
    end_trace(mark);
    stop_tracing_session("trace.txt");
    return value;
}
