/* Each rank writes every fourth block of one file, by MPI, with and without waiting, and by POSIX, and reads what the others wrote. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 1000, WAITED = 32, MPI = 64, BLOCKS = 96 };

int main(int count, char **arguments) {
    int rank, ranks, wrong = 0;
    char block[BLOCK];
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    memset(block, 'a' + rank, BLOCK);
    MPI_File file;
    if (MPI_File_open(MPI_COMM_WORLD, arguments[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) != MPI_SUCCESS) return 1;
    for (int at = rank; at < WAITED; at += ranks) MPI_File_write_at(file, (MPI_Offset)at * BLOCK, block, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_Request requests[MPI - WAITED];
    int asked = 0;
    for (int at = WAITED + rank; at < MPI; at += ranks)
        MPI_File_iwrite_at(file, (MPI_Offset)at * BLOCK, block, BLOCK, MPI_BYTE, &requests[asked++]);
    for (int each = 0; each < asked; each++) wrong |= MPI_Wait(&requests[each], MPI_STATUS_IGNORE) != MPI_SUCCESS;
    MPI_Barrier(MPI_COMM_WORLD);
    static char read[MPI][BLOCK];
    for (int at = 0; at < MPI; at++) {
        MPI_Request request;
        MPI_File_iread_at(file, (MPI_Offset)at * BLOCK, read[at], BLOCK, MPI_BYTE, &request);
        wrong |= MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS || read[at][BLOCK - 1] != 'a' + at % ranks;
    }
    MPI_File_close(&file);
    int posix = open(arguments[1], O_RDWR);
    for (int at = MPI + rank; at < BLOCKS; at += ranks) wrong |= pwrite(posix, block, BLOCK, (off_t)at * BLOCK) != BLOCK;
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
