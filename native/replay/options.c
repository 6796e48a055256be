#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

struct options options = {
        .seconds = 86400,
        .threads = 100000,
        .alive = 4096,
        .live_bytes = 64ull << 30,
        .epochs_ahead = 1,
        .sample_every = 64,
};

static const char usage[] =
        "usage: dballoc_replay [OPTION]... PLAN      (PLAN: a file, or - for standard input)\n"
        "Replays the plan of a trace on this process's malloc; dballoc replay starts it.\n"
        "  --speed X           as recorded, X times as fast; 0: as fast as the order allows (0)\n"
        "  --ahead N           epochs that a thread may be ahead of the slowest, -1: any (1)\n"
        "  --touch MODE        recorded, all, first, none (recorded)\n"
        "  --idle SECONDS      to wait after the last event (0)\n"
        "  --sample-every N    one call in N is timed, on average (64)\n"
        "  --threads N         the most threads (100000)\n"
        "  --alive N           the most threads at once (4096)\n"
        "  --live-bytes N      the most bytes at once\n"
        "  --seconds N         the most seconds (86400)\n"
        "  --own               print the engine's own memory, and replay nothing (no PLAN)\n";

enum option_key {
    OPTION_SPEED = 256,
    OPTION_AHEAD,
    OPTION_TOUCH,
    OPTION_IDLE,
    OPTION_SAMPLE,
    OPTION_THREADS,
    OPTION_ALIVE,
    OPTION_LIVE,
    OPTION_SECONDS,
    OPTION_OWN,
    OPTION_HELP,
    OPTION_VERSION,
};

static const struct option words_of[] = {
        {"speed", required_argument, NULL, OPTION_SPEED},
        {"ahead", required_argument, NULL, OPTION_AHEAD},
        {"touch", required_argument, NULL, OPTION_TOUCH},
        {"idle", required_argument, NULL, OPTION_IDLE},
        {"sample-every", required_argument, NULL, OPTION_SAMPLE},
        {"threads", required_argument, NULL, OPTION_THREADS},
        {"alive", required_argument, NULL, OPTION_ALIVE},
        {"live-bytes", required_argument, NULL, OPTION_LIVE},
        {"seconds", required_argument, NULL, OPTION_SECONDS},
        {"own", no_argument, NULL, OPTION_OWN},
        {"help", no_argument, NULL, OPTION_HELP},
        {"version", no_argument, NULL, OPTION_VERSION},
        {NULL, 0, NULL, 0},
};

static double read_number(const char *name, const char *text, double least, double most)
{
    char *end = NULL;
    errno = 0;
    double number = strtod(text, &end);
    if (errno != 0 || end == text || *end != '\0' || !(number >= least && number <= most))
        refuse("--%s %.40s: give a number from %.0f to %.0f", name, text, least, most);
    return number;
}

static enum touch_mode read_touch(const char *text)
{
    static const char *const names[] = {"recorded", "all", "first", "none"};
    for (unsigned mode = 0; mode < sizeof names / sizeof *names; mode++) {
        if (strcmp(text, names[mode]) == 0)
            return (enum touch_mode)mode;
    }
    refuse("--touch %.40s: it is recorded, all, first or none", text);
}

static void read_option(int key, const char *name)
{
    /* Numbers above 2^53 are not exact as double, and not wanted. */
    const double most = 9007199254740992.0;
    switch (key) {
    case OPTION_SPEED:
        options.speed = read_number(name, optarg, 0, 1e6);
        break;
    case OPTION_AHEAD: {
        double epochs = read_number(name, optarg, -1, 1e9);
        options.epochs_ahead = epochs < 0 ? ANY_EPOCHS : (uint32_t)epochs;
        break;
    }
    case OPTION_TOUCH:
        options.touch = read_touch(optarg);
        break;
    case OPTION_IDLE:
        options.idle = read_number(name, optarg, 0, 1e6);
        break;
    case OPTION_SAMPLE:
        options.sample_every = (uint32_t)read_number(name, optarg, 1, 1e9);
        break;
    case OPTION_THREADS:
        options.threads = (uint64_t)read_number(name, optarg, 1, 1e7);
        break;
    case OPTION_ALIVE:
        options.alive = (uint64_t)read_number(name, optarg, 1, 1e6);
        break;
    case OPTION_LIVE:
        options.live_bytes = (uint64_t)read_number(name, optarg, 0, most);
        break;
    case OPTION_SECONDS:
        options.seconds = read_number(name, optarg, 0, 1e7);
        break;
    case OPTION_OWN:
        options.only_own = true;
        break;
    case OPTION_HELP:
        (void)fputs(usage, stdout);
        exit(0); // NOLINT(concurrency-mt-unsafe): there is one thread yet
    case OPTION_VERSION:
        (void)puts("dballoc_replay");
        exit(0); // NOLINT(concurrency-mt-unsafe): there is one thread yet
    default:
        refuse("unknown option; see dballoc_replay --help");
    }
}

void options_read(int count, char **words)
{
    int place = 0;
    int key = 0;
    opterr = 0;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread yet
    while ((key = getopt_long(count, words, "", words_of, &place)) != -1)
        read_option(key, key == '?' ? "" : words_of[place].name);
    if (options.only_own && optind == count)
        return;
    if (optind != count - 1)
        refuse("give one plan; see dballoc_replay --help");
    options.plan = words[optind];
}
