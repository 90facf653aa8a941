/* Each rank writes every fourth block of one file, by MPI and by POSIX, and reads what the others wrote. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 1000, BLOCKS = 64 };

int main(int count, char **arguments) {
    int rank, ranks, wrong = 0;
    char block[BLOCK];
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    memset(block, 'a' + rank, BLOCK);
    MPI_File file;
    if (MPI_File_open(MPI_COMM_WORLD, arguments[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) != MPI_SUCCESS) return 1;
    for (int at = rank; at < BLOCKS / 2; at += ranks) MPI_File_write_at(file, (MPI_Offset)at * BLOCK, block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    int posix = open(arguments[1], O_RDWR);
    for (int at = BLOCKS / 2 + rank; at < BLOCKS; at += ranks) wrong |= pwrite(posix, block, BLOCK, (off_t)at * BLOCK) != BLOCK;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int at = 0; at < BLOCKS; at++) {
        wrong |= pread(posix, block, BLOCK, (off_t)at * BLOCK) != BLOCK;
        for (int byte = 0; byte < BLOCK; byte++) wrong |= block[byte] != 'a' + at % ranks;
    }
    close(posix);
    int all;
    MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_LOR, 0, MPI_COMM_WORLD);
    if (rank == 0) printf(all ? "ranks differ\n" : "%d ranks agree\n", ranks);
    MPI_Finalize();
    return 0;
}
