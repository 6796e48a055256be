/* The command line: --help of the program says what each option means. */
#ifndef DBALLOC_REPLAY_OPTIONS_H
#define DBALLOC_REPLAY_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum touch_mode { TOUCH_RECORDED, TOUCH_ALL, TOUCH_FIRST, TOUCH_NONE };

#define ANY_EPOCHS UINT32_MAX

struct options {
    const char *plan;
    double speed;                        /* 0: as fast as the order allows */
    double idle, seconds;                /* after the last event; of the run at most */
    uint64_t threads, alive, live_bytes; /* at most: in all, at once, at once */
    uint32_t epochs_ahead;               /* of the slowest thread; ANY_EPOCHS: no bound */
    uint32_t sample_every;
    enum touch_mode touch;
    bool only_own; /* print the memory of the engine itself */
};

extern struct options options;

/* Ends the program where the words are wrong, or ask for --help or --version. */
void options_read(int count, char **words);

#endif
