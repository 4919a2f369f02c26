/* Sixteen threads that record as fast as they can: argv[1] is where to, argv[2] how many events each. */
#include "perfloom_trace.h"
#include <pthread.h>
#include <stdlib.h>

static long events;

static void *work(void *given) {
    char mark[64];
    for (long done = 0; done < events; done += 4) {
        PERFLOOM_SCOPE("layer, with a comma: and a colon");
        begin_trace("matmul_ffn_up-12", mark);
        end_trace(mark);
        if (done % 1000 == 0) PERFLOOM_COUNTER("done", done / 8.0);
    }
    return given;
}

int main(int count, char **words) {
    pthread_t threads[16];
    if (count < 3) return 2;
    events = atol(words[2]);
    start_tracing_session();
    for (int each = 0; each < 16; each++) pthread_create(&threads[each], NULL, work, NULL);
    for (int each = 0; each < 16; each++) pthread_join(threads[each], NULL);
    stop_tracing_session(words[1]);
    return 0;
}
