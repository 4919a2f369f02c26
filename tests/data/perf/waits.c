/* Threads that wait: for a lock, for what another writes, and for time to pass. */
#define _GNU_SOURCE
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#define FUNCTION __attribute__((noinline)) static void

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int ends[2];
static volatile double sink;

FUNCTION compute(int n) {
    for (int i = 0; i < n * 100000; i++)
        sink += i * 0.5;
}

FUNCTION rest(long us) {
    struct timespec time = {0, us * 1000};
    nanosleep(&time, 0);
}

FUNCTION hold_lock(void) {
    pthread_mutex_lock(&lock);
    rest(2000);
    compute(2);
    pthread_mutex_unlock(&lock);
}

FUNCTION read_pipe(void) {
    char c;
    if (read(ends[0], &c, 1) != 1)
        sink = 0;
}

FUNCTION write_pipe(void) {
    if (write(ends[1], "x", 1) != 1)
        sink = 0;
}

static void *contend(void *name) {
    pthread_setname_np(pthread_self(), name);
    for (int i = 0; i < 4; i++)
        hold_lock();
    return 0;
}

static void *consume(void *name) {
    pthread_setname_np(pthread_self(), name);
    for (int i = 0; i < 4; i++) {
        read_pipe();
        compute(3);
    }
    return 0;
}

static void *produce(void *name) {
    pthread_setname_np(pthread_self(), name);
    for (int i = 0; i < 4; i++) {
        rest(2000);
        compute(1);
        write_pipe();
    }
    return 0;
}

int main(void) {
    void *(*work[])(void *) = {contend, contend, consume, produce};
    char *names[] = {"lock-a", "lock-b", "consumer", "producer"};
    pthread_t threads[4];
    if (pipe(ends))
        return 1;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], 0, work[i], names[i]);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], 0);
    return 0;
}
