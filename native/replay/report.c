#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../error_text.h"
#include "clocks.h"
#include "curve.h"
#include "figures.h"
#include "latency.h"
#include "options.h"
#include "pacing.h"
#include "plan.h"
#include "runner.h"

/* The text is put together here and not by stdio, which allocates: a malloc may be broken by now. */
static char buffer[1 << 16];
static size_t filled;

static void flush(int file)
{
    for (size_t at = 0; at < filled;) {
        ssize_t count = write(file, buffer + at, filled - at);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            _exit(STATUS_FAILED);
        at += (size_t)count;
    }
    filled = 0;
}

static __attribute__((format(printf, 1, 0))) void add_list(const char *format, va_list values)
{
    if (sizeof buffer - filled < 1024)
        flush(STDOUT_FILENO);
    // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): our callers have begun the list
    int length = vsnprintf(buffer + filled, sizeof buffer - filled, format, values);
    if (length > 0) {
        filled += (size_t)length < sizeof buffer - filled ? (size_t)length
                                                          : sizeof buffer - filled - 1;
    }
}

static __attribute__((format(printf, 1, 2))) void add(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    add_list(format, values);
    va_end(values);
}

/* Any thread may refuse or report a fault while others run, and two may at once: the second one
 * waits for the end of the process. */
static void begin_last_words(void)
{
    static _Atomic int begun;
    while (atomic_exchange(&begun, 1))
        (void)pause();
    filled = 0;
}

void refuse(const char *format, ...)
{
    begin_last_words();
    va_list values;
    va_start(values, format);
    add_list(format, values);
    va_end(values);
    add("\n");
    flush(STDERR_FILENO);
    _exit(STATUS_REFUSED);
}

void fail(int error, const char *format, ...)
{
    begin_last_words();
    va_list values;
    va_start(values, format);
    add_list(format, values);
    va_end(values);
    add(": %s\n", error_text(error));
    flush(STDERR_FILENO);
    _exit(STATUS_FAILED);
}

void report_fault(const char *kind, const char *text)
{
    begin_last_words();
    add("{\"fault\": {\"kind\": \"%s\", \"text\": \"%s\"}}\n", kind, text);
    flush(STDOUT_FILENO);
    _exit(STATUS_FAULT);
}

static void add_point(const char *name, const struct curve_point *point)
{
    add("\"%s\": [%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRId64 "]", name, point->time,
            point->since, point->anonymous, point->live);
}

static void add_totals(void)
{
    uint64_t cpu = 0, minor = 0, major = 0, failed = 0, failed_size = 0, lateness = 0;
    struct wait_figures waits[WAIT_KINDS] = {{0}};
    for (uint64_t i = 0; i < plan.header->threads; i++) {
        const struct runner *runner = &runners[i];
        cpu += runner->cpu;
        minor += runner->minor_faults;
        major += runner->major_faults;
        if (failed == 0)
            failed_size = runner->failed_size;
        failed += runner->failed;
        lateness = runner->lateness > lateness ? runner->lateness : lateness;
        for (unsigned kind = 0; kind < WAIT_KINDS; kind++) {
            waits[kind].count += runner->waits[kind].count;
            waits[kind].nanoseconds += runner->waits[kind].nanoseconds;
            waits[kind].cpu += runner->waits[kind].cpu;
        }
    }
    add("\"cpu\": %" PRIu64 ", \"minor_faults\": %" PRIu64 ", \"major_faults\": %" PRIu64
        ", \"failed\": %" PRIu64 ", \"failed_size\": %" PRIu64 ", \"lateness\": %" PRIu64
        ",\n\"waits\": [",
            cpu, minor, major, failed, failed_size, lateness);
    for (unsigned kind = 0; kind < WAIT_KINDS; kind++) {
        add("%s[%" PRIu64 ", %" PRIu64 ", %" PRIu64 "]", kind ? ", " : "", waits[kind].count,
                waits[kind].nanoseconds, waits[kind].cpu);
    }
    add("],\n");
}

static void add_operation(unsigned operation, unsigned size_class, const char *before)
{
    const struct latency *latency = latency_of(operation, size_class);
    uint64_t calls = 0;
    for (uint64_t i = 0; i < plan.header->threads; i++)
        calls += runners[i].calls[operation][size_class];
    add("%s[%u, %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", [", before, operation,
            size_class_end(size_class), calls, (uint64_t)latency->sampled,
            (uint64_t)latency->nanoseconds);
    bool first = true;
    for (unsigned i = 0; i < BUCKETS; i++) {
        if (latency->buckets[i]) {
            add("%s[%" PRIu64 ", %" PRIu64 "]", first ? "" : ", ", latency_bucket_end(i),
                    (uint64_t)latency->buckets[i]);
            first = false;
        }
    }
    add("]]");
}

static void add_operations(void)
{
    add("\"operations\": [");
    for (unsigned operation = 0; operation < OPERATIONS; operation++) {
        for (unsigned size_class = 0; size_class < CLASSES; size_class++)
            add_operation(operation, size_class, operation + size_class ? ",\n" : "");
    }
    add("],\n");
}

static void add_curve(void)
{
    add("\"curve\": [");
    for (uint32_t i = 0; i < curve->count; i++) {
        const struct curve_point *point = &curve->points[i];
        add("%s[%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRId64 "]", i ? ",\n" : "", point->time,
                point->since, point->anonymous, point->live);
    }
    add("],\n\"marks\": [");
    for (uint64_t i = 0; i < plan.header->marks; i++) {
        add("%s[%" PRIu64 ", %" PRIu64 ", %" PRId64 "]", i ? ", " : "", plan.marks[i].time,
                curve_marks[i].anonymous, curve_marks[i].live);
    }
    add("],\n");
}

/* Live bytes at the end of epochs: the last of each stretch of them. */
static void add_live_curve(void)
{
    uint64_t epochs = plan.header->epochs;
    uint64_t stretch = (epochs + CURVE_POINTS - 1) / CURVE_POINTS;
    int64_t live = 0, peak = 0;
    uint32_t place = 0;
    add("\"live_curve\": [");
    for (uint64_t i = 0; i < epochs; i++) {
        if (plan_is_entered(i))
            live += pacing_live_change(place++);
        peak = live > peak ? live : peak;
        if ((i + 1) % stretch == 0 || i + 1 == epochs) {
            add("%s[%" PRIu64 ", %" PRId64 "]", i + 1 > stretch ? ", " : "",
                    (i + 1) * plan.header->epoch_ns, live);
        }
    }
    add("],\n\"live_peak\": %" PRId64 ",\n", peak);
}

static void add_threads(void)
{
    add("\"threads\": [");
    for (uint64_t i = 0; i < plan.header->threads; i++) {
        add("%s[%" PRId64, i ? ",\n" : "", (int64_t)runners[i].live);
        for (unsigned operation = 0; operation < OPERATIONS; operation++) {
            uint64_t calls = 0;
            for (unsigned size_class = 0; size_class < CLASSES; size_class++)
                calls += runners[i].calls[operation][size_class];
            add(", %" PRIu64, calls);
        }
        add("]");
    }
    add("]");
}

void report_figures(const struct figures *figures)
{
    add("{\"nanoseconds\": %" PRIu64 ", \"clock\": %" PRIu64 ", \"at_start\": %" PRIu64
        ", \"readings\": %" PRIu64 ", \"reading_cost\": %" PRIu64 ",\n",
            figures->nanoseconds, latency_clock, figures->at_start, curve->readings, curve->cost);
    add_point("peak", &curve->peak);
    add(", ");
    add_point("end", &figures->end);
    if (options.idle > 0) {
        add(", ");
        add_point("idle", &figures->idle);
    }
    add(",\n");
    add_totals();
    add_operations();
    add_curve();
    add_live_curve();
    add_threads();
    add("}\n");
    flush(STDOUT_FILENO);
}
