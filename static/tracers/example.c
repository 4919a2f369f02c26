#include "perfloom_trace.h"

static double layer(int size) {
    PERFLOOM_SCOPE("layer");
    double sum = 0;
    for (int i = 1; i <= size; i++) {
        sum += 1.0 / i;
    }
    return sum;
}

int main(void) {
    char mark[64];
    double sum = 0;
    start_tracing_session();
    for (int token = 0; token < 4; token++) {
        begin_trace("decode", mark);
        for (int number = 0; number < 3; number++) {
            sum += layer(100000);
        }
        end_trace(mark);
        PERFLOOM_COUNTER("tokens", token + 1);
    }
    stop_tracing_session("trace.txt");
    return sum > 0 ? 0 : 1;
}
