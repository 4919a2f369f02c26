/* Eight threads that compute at the same time and share one CPU. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>

volatile double sink;

static void *compute(void *argument)
{
    double sum = 0;
    for (long n = 1; n < 30000000L; n++)
        sum += 1.0 / n;
    sink = sum;
    return argument;
}

int main(void)
{
    pthread_t threads[8];
    cpu_set_t all, first;
    int cpu = 0;
    if (sched_getaffinity(0, sizeof all, &all))
        return 1;
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&first);
    CPU_SET(cpu, &first);
    if (sched_setaffinity(0, sizeof first, &first))
        return 1;
    for (int n = 0; n < 8; n++)
        pthread_create(threads + n, 0, compute, 0);
    for (int n = 0; n < 8; n++)
        pthread_join(threads[n], 0);
    return 0;
}
