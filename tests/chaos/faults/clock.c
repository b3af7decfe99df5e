/* The clock of a process, so many seconds ahead as the first number of the file $EVENKEEL_CLOCK says
   at the moment (behind, if negative): CLOCK_REALTIME alone, as when somebody sets a machine's clock. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long *ahead;

__attribute__((constructor)) static void look(void) {
    const char *file = getenv("EVENKEEL_CLOCK");
    int from = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
    if (from < 0) return;
    void *seen = mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, from, 0);
    if (seen != MAP_FAILED) ahead = seen;
    close(from);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    long failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += *ahead;
    return (int)failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec found;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &found);
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *also) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (also) *also = found.tv_sec;
    return found.tv_sec;
}
