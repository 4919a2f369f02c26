#include <pthread.h>
static volatile long sum;
static long work(long n) { long s = 0; for (long i = 0; i < n; i++) s += i; sum += s; return s; }
static void *run(void *p) { work((long)p); return 0; }
int main(void) { pthread_t t; pthread_create(&t, 0, run, (void *)2000L); work(500); pthread_join(t, 0); return 0; }
