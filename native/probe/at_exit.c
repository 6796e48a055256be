#include "at_exit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../error_text.h"
#include "descriptors.h"
#include "message.h"
#include "preload.h"
#include "snapshot.h"

static bool is_wanted;
static atomic_bool is_written; /* two threads may end the program */

void at_exit_begin(void)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): before there are threads */
    const char *request = getenv("DBALLOC_PROBE_AT_EXIT");
    is_wanted = request != NULL && strcmp(request, "1") == 0;
}

static void complain(const char *path)
{
    char why[256];
    const char *error = error_text(errno);
    (void)snprintf(why, sizeof why, "%.180s: %s", path, error != NULL ? error : "unknown error");
    message_write(why, "no snapshot is written: let the program's user write there");
}

void at_exit_write(void)
{
    char path[sizeof preload.directory + 32];
    struct descriptor file;
    if (!is_wanted || atomic_exchange(&is_written, true))
        return;
    (void)snprintf(path, sizeof path, "%s/%d.snapshot", preload.directory, (int)preload.owner);
    (void)unlink(path); /* of another process of that number, which has ended */
    if (!descriptor_take(&file, open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                                        S_IRUSR | S_IWUSR))) {
        complain(path);
        return;
    }
    if (!snapshot_write(&file)) {
        complain(path);
        (void)unlink(path);
    }
    descriptor_close(&file);
}
