// A disk that takes up to 20 ms to have something: preloaded, it is between a program and its fdatasync.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int fdatasync(int file) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    usleep(now.tv_nsec / 1000 % 20000);
    return syscall(SYS_fdatasync, file);
}
