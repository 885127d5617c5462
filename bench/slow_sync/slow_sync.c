/* A disk whose syncs take longer: loaded with LD_PRELOAD, it rests after every fsync and fdatasync.
   SLOW_SYNC_MICROSECONDS says for how long; 2,000 unless given. synced_nanoseconds() tells how long
   all syncs of this process have taken, rests not counted. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

typedef int sync_function(int);

static atomic_llong synced;

long long synced_nanoseconds(void)
{
    return synced;
}

static long long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void rest(void)
{
    const char *given = getenv("SLOW_SYNC_MICROSECONDS");
    long microseconds = given ? atol(given) : 2000;
    struct timespec left = {microseconds / 1000000, microseconds % 1000000 * 1000};
    while (microseconds && nanosleep(&left, &left) && errno == EINTR)
        ;
}

static int slowly(sync_function *real, int file)
{
    long long begin = now();
    int result = real(file);
    int error = errno; /* what the sync itself said is kept */
    synced += now() - begin;
    rest();
    errno = error;
    return result;
}

int fsync(int file)
{
    static sync_function *real;
    if (!real)
        real = (sync_function *)dlsym(RTLD_NEXT, "fsync");
    return slowly(real, file);
}

int fdatasync(int file)
{
    static sync_function *real;
    if (!real)
        real = (sync_function *)dlsym(RTLD_NEXT, "fdatasync");
    return slowly(real, file);
}
