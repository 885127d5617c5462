/* A disk whose syncs take longer: loaded with LD_PRELOAD, it rests after every fsync and fdatasync.
   SLOW_SYNC_MICROSECONDS says for how long; 2,000 unless given. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

static void rest(void)
{
    const char *given = getenv("SLOW_SYNC_MICROSECONDS");
    long microseconds = given ? atol(given) : 2000;
    struct timespec left = {microseconds / 1000000, microseconds % 1000000 * 1000};
    int error = errno; /* what the sync itself said is kept */
    while (nanosleep(&left, &left) && errno == EINTR)
        ;
    errno = error;
}

int fsync(int file)
{
    static int (*real)(int);
    if (!real)
        real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    int result = real(file);
    rest();
    return result;
}

int fdatasync(int file)
{
    static int (*real)(int);
    if (!real)
        real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    int result = real(file);
    rest();
    return result;
}
