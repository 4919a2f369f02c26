/* Page faults of known number over children: `faults CHILDREN PAGES` touches PAGES pages for the first time in each child,
 * once more of them with each, and prints how many minor faults the kernel noted of all of them (getrusage). */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **words)
{
    int children = count > 1 ? atoi(words[1]) : 4;
    long pages = count > 2 ? atol(words[2]) : 1000, size = sysconf(_SC_PAGESIZE);
    struct rusage own, theirs;
    for (int child = 0; child < children; child++)
        if (fork() == 0) {
            long mine = pages * (child + 1);
            char *memory = mmap(0, mine * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            madvise(memory, mine * size, MADV_NOHUGEPAGE);
            for (long page = 0; page < mine; page++) {
                memory[page * size] = 1;
                if (page % 100 == 0)
                    for (volatile long spin = 0; spin < 200000; spin++)
                        ;
            }
            _exit(0);
        }
    while (wait(0) > 0)
        ;
    getrusage(RUSAGE_SELF, &own);
    getrusage(RUSAGE_CHILDREN, &theirs);
    printf("faults: %ld\n", own.ru_minflt + own.ru_majflt + theirs.ru_minflt + theirs.ru_majflt);
    return 0;
}
