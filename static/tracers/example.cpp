#include "perfloom_trace.h"

#include <string>
#include <thread>
#include <vector>

static void request(int number) {
    const std::string name = "request " + std::to_string(number);
    PERFLOOM_SCOPE(name.c_str());
    volatile double sum = 0;
    {
        PERFLOOM_SCOPE("parse");
        for (int i = 1; i < 100000; i++) sum = sum + 1.0 / i;
    }
    PERFLOOM_SCOPE("answer");
    for (int i = 1; i < 300000; i++) sum = sum + 1.0 / i;
    PERFLOOM_COUNTER("sum", sum);
}

int main() {
    start_tracing_session();
    std::vector<std::thread> threads;
    for (int number = 0; number < 3; number++) threads.emplace_back(request, number);
    for (auto &thread : threads) thread.join();
    stop_tracing_session("trace.txt");
}
