// What DBALLOC_TRACE says: native/trace/startup.c. Its _exit would be libFuzzer's.
#include <stdlib.h>
#include <unistd.h>

#define _exit trace_exit
#define _Exit trace_c_exit
#include "../../../native/trace/startup.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool is_idle = false;
    char *request = malloc(size + 1);
    if (request == NULL) {
        abort();
    }
    memcpy(request, data, size);
    request[size] = '\0';
    const bool good = read_request(request, &is_idle);
    const uint64_t limit = atomic_load(&session_usual_limit);
    if (good && (preload.directory[0] != '/' || limit < LEAST_LIMIT || limit > MOST_LIMIT ||
                        strlen(preload.directory) > size)) {
        abort();
    }
    free(request);
    return 0;
}
