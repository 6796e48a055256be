/* All that the probe knows, sent to a client or written into a file. */
#ifndef DBALLOC_PROBE_SNAPSHOT_H
#define DBALLOC_PROBE_SNAPSHOT_H

#include "client.h"

enum { SNAPSHOT_VERSION = 1 };

void snapshot_send(struct client *client);

/* Writes it into a file instead, which nobody else has. False with errno if that fails, or if a
 * client is still being served after a moment. */
bool snapshot_write(const struct descriptor *file);

#endif
