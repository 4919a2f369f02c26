/* Another file of the same program: what it records goes into the same trace. */
#include "perfloom_trace.h"

int helped(int value);

int helped(int value) {
    PERFLOOM_SCOPE("helper");
    return value;
}
