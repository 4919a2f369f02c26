#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static inline double square(double x)
{
	return x * x;
}

static inline double step(double x, int k)
{
	double y = square(x) + k;

	return sqrt(y);
}

__attribute__((noinline)) double walk(double *v, int n, int rounds)
{
	double sum = 0;

	for (int k = 0; k < rounds; k++)
		for (int i = 0; i < n; i++) {
			v[i] = step(v[i], k);
			sum += v[i];
		}
	return sum;
}

__attribute__((noinline)) long descend(long n)
{
	if (n < 2)
		return n;
	return descend(n - 1) + descend(n - 2);
}

int main(int argc, char **argv)
{
	int n = 4096, rounds = argc > 1 ? atoi(argv[1]) : 1;
	double *v = calloc(n, sizeof *v);
	double sum = walk(v, n, rounds);

	printf("%g %ld\n", sum, descend(10 + rounds / 200));
	return 0;
}
