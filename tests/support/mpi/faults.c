/* Each rank has a known number of page faults: faults PAGES CHILDREN [SIGNAL] touches (rank + 1) * PAGES new pages in
 * itself and in each of its children, one after the other, and ends by the signal. */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void touch(long pages) {
    long size = sysconf(_SC_PAGESIZE);
    volatile char *all = mmap(NULL, pages * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) _exit(3);
    madvise((void *)all, pages * size, MADV_NOHUGEPAGE);
    for (long page = 0; page < pages; page++) all[page * size] = 1;
    munmap((void *)all, pages * size);
}

int main(int argc, char **argv) {
    int rank;
    long pages = atol(argv[1]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    touch((rank + 1) * pages);
    for (int child = atoi(argv[2]); child > 0; child--) {
        pid_t pid = fork();
        if (pid == 0) {
            touch((rank + 1) * pages);
            _exit(0);
        }
        waitpid(pid, NULL, 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (argc > 3 && rank == 1) raise(atoi(argv[3]));
    MPI_Finalize();
    return 0;
}
