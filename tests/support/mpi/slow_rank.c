/* An MPI program that repeats a step: each rank computes for step_ms of CPU time, by the clock of its thread, so that a
   busy machine makes no difference; then all wait in MPI_Barrier until the last one is done, and busily, as MPI
   libraries do. From half of the time on, the slow rank computes twice as much in each step. Rank 0 decides by its clock
   when that is, and when all end. Arguments: total_ms step_ms slow; slow: a rank, -1 for none. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static volatile unsigned sink;

static double cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

__attribute__((noinline)) void relax(double ms)
{
    double end = cpu_ms() + ms;
    while (cpu_ms() < end)
        for (int i = 0; i < 20000; i++)
            sink += i;
}

__attribute__((noinline)) void assemble(double ms)
{
    double end = cpu_ms() + ms;
    while (cpu_ms() < end)
        for (int i = 0; i < 20000; i++)
            sink ^= i;
}

__attribute__((noinline)) void synchronize(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    double total_ms = argc > 1 ? atof(argv[1]) : 3000, step_ms = argc > 2 ? atof(argv[2]) : 10, start;
    int slow = argc > 3 ? atoi(argv[3]) : 2, rank, phase = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    while (phase < 2) {
        double elapsed_ms = (MPI_Wtime() - start) * 1e3;
        phase = elapsed_ms < total_ms / 2 ? 0 : elapsed_ms < total_ms ? 1 : 2;
        MPI_Bcast(&phase, 1, MPI_INT, 0, MPI_COMM_WORLD);
        assemble(step_ms * 0.2);
        relax(step_ms * (rank == slow && phase == 1 ? 1.8 : 0.8));
        synchronize();
    }
    if (rank == 0)
        puts("done");
    MPI_Finalize();
    return 0;
}
