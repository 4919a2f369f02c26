#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static volatile long sum;
__attribute__((noinline)) long work(long n) { long s = 0; for (long i = 0; i < n; i++) s += i * i; sum += s; return s; }
__attribute__((noinline)) long fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
long odd(int n);
__attribute__((noinline)) long even(int n) { work(10); return n == 0 ? 1 : odd(n - 1); }
__attribute__((noinline)) long odd(int n) { work(20); return n == 0 ? 0 : even(n - 1); }
__attribute__((noinline)) long reader(void) { return work(1000); }
__attribute__((noinline)) long writer(void) { return work(3000) + fib(10); }
__attribute__((noinline)) long backup(int read) { return read ? reader() : writer(); }
int main(void) { long t = backup(1) + backup(0) + even(9); char *p = malloc(1000); memset(p, 1, 1000); printf("%ld %d\n", t, p[3]); free(p); return 0; }
