#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <vector>

namespace work
{
template <class T> inline T square(T x)
{
	return x * x;
}

static inline double step(double x, int k)
{
	double y = square(x) + k;

	return std::sqrt(y);
}

struct Solver {
	std::vector<double> values;

	double run(int rounds);
};

double Solver::run(int rounds)
{
	double sum = 0;

	for (int k = 0; k < rounds; k++)
		for (double &x : values) {
			x = step(x, k);
			sum += x;
		}
	std::sort(values.begin(), values.end(), [](double a, double b) { return a > b; });
	return sum;
}
} // namespace work

int main(int argc, char **argv)
{
	work::Solver solver;
	double sum = 0;

	solver.values.assign(4096, 1.5);
	for (int round = argc > 1 ? atoi(argv[1]) : 1; round > 0; round--)
		sum += solver.run(10);
	std::cout << sum << "\n";
}
