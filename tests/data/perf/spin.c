/* A program to record: two named threads beside the main one, calls of known names, one of them inlined. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static volatile unsigned long sink;

static inline __attribute__((always_inline)) unsigned long mix(unsigned long x)
{
    for (int i = 0; i < 64; i++)
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return x;
}

__attribute__((noinline)) unsigned long leaf(unsigned long x)
{
    return mix(x) + sink;
}

__attribute__((noinline)) unsigned long branch(unsigned long x, int depth)
{
    unsigned long sum = leaf(x);
    if (depth > 0)
        sum += branch(sum, depth - 1);
    sink = sum;
    return sum;
}

__attribute__((noinline)) void touch(size_t bytes)
{
    char *memory = malloc(bytes);
    memset(memory, 1, bytes);
    sink += memory[bytes / 2];
    free(memory);
}

static void *work(void *name)
{
    pthread_setname_np(pthread_self(), name);
    for (int i = 0; i < 400000; i++)
        branch((unsigned long)i + 1, i % 4);
    for (int i = 0; i < 4; i++)
        touch(4 << 20);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, work, "worker one");
    pthread_create(&threads[1], NULL, work, "worker two");
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
