// What DBALLOC_PROBE says: native/probe/startup.c.
#include "../../../native/probe/startup.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *request = malloc(size + 1);
    if (request == NULL) {
        abort();
    }
    memcpy(request, data, size);
    request[size] = '\0';
    const bool good = read_request(request);
    const uint64_t interval = probe.interval;
    if (good && (preload.directory[0] != '/' || probe.first_interval < LEAST_INTERVAL ||
                        interval > MOST_INTERVAL || (interval != 0 && interval < LEAST_INTERVAL))) {
        abort();
    }
    free(request);
    return 0;
}
