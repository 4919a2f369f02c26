/* An MPI program in which rank 1 works twice as long as the others: work_ms of CPU time each, counted by the thread's
   own clock, so that a busy machine makes no difference. Who has done its work sleeps until all have: waiting inside
   MPI would burn the CPU too. Each rank calls itself by its number, so that nobody can take one for another. Arguments: [work_ms [what]]; what: "crash N" has rank N crash half way, "fail N" exit
   with status 3, "idle N" do no work, "on" go on until it is ended. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

static volatile unsigned sink;

static double cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static void doze(long ms)
{
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

__attribute__((noinline)) void work(double ms)
{
    double end = cpu_ms() + ms;
    while (cpu_ms() < end)
        for (int i = 0; i < 20000; i++)
            sink += i;
}

int main(int argc, char **argv)
{
    int rank, size, done = 0;
    double ms = argc > 1 ? atof(argv[1]) : 300;
    const char *what = argc > 2 ? argv[2] : "";
    int who = argc > 3 ? atoi(argv[3]) : -1;
    char name[16];
    MPI_Request request;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    snprintf(name, sizeof name, "rank-%d", rank);
    prctl(PR_SET_NAME, name);
    if (rank == 1)
        ms *= 2;
    if (rank == who) {
        if (!strcmp(what, "idle"))
            ms = 0;
        work(ms / 2);
        if (!strcmp(what, "crash"))
            *(volatile int *)8 = 1;
        if (!strcmp(what, "fail"))
            exit(3);
    }
    work(rank == who ? ms / 2 : ms);
    printf("rank %d of %d\n", rank, size);
    fflush(stdout);
    while (!strcmp(what, "on") || !strcmp(what, "crash") || !strcmp(what, "fail")) {
        work(5);
        doze(20);
    }
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    while (!done) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        doze(10);
    }
    MPI_Finalize();
    return 0;
}
