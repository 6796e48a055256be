/* Threads that need one arena's mutex all the time, and one thread that waits for nothing of it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS = 6, BLOCKS = 64, SIZE = 3000 };

static void *churn(void *unused)
{
    void *blocks[BLOCKS];
    (void)unused;
    for (;;) {
        for (int i = 0; i < BLOCKS; i++)
            blocks[i] = malloc(SIZE);
        for (int i = 0; i < BLOCKS; i++)
            free(blocks[i]);
    }
    return NULL;
}

int main(void)
{
    struct timespec pause = {0, 1000000};
    pthread_t thread;
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&thread, NULL, churn, NULL) != 0)
            return 1;
    }
    puts("ready");
    fflush(stdout);
    for (;;)
        nanosleep(&pause, NULL);
}
