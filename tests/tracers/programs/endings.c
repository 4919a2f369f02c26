/* A program that ends as argv[1] says, without stopping to record. */
#include "perfloom_trace.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int helped(int value);

int main(int count, char **words) {
    const char *how = count > 1 ? words[1] : "";
    start_tracing_session();
    {
        PERFLOOM_SCOPE("outer\nsecond line");
        PERFLOOM_COUNTER("share", helped(1) / 3.0);
        PERFLOOM_COUNTER("bytes", 4096);
        PERFLOOM_COUNTER("less", -2.5e-200);
        if (fork() == 0) {
            PERFLOOM_SCOPE("of the child");
            exit(0);
        }
        wait(NULL);
        if (!strcmp(how, "crash")) kill(getpid(), SIGSEGV);
        if (!strcmp(how, "abort")) abort();
        if (!strcmp(how, "told")) raise(SIGTERM);
        if (!strcmp(how, "exit")) exit(3);
        if (!strcmp(how, "again")) {
            stop_tracing_session("first.txt");
            start_tracing_session();
        }
    }
    return 4;
}
