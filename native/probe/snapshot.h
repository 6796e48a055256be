/* All that the probe knows, sent to a client. */
#ifndef DBALLOC_PROBE_SNAPSHOT_H
#define DBALLOC_PROBE_SNAPSHOT_H

#include "client.h"

enum { SNAPSHOT_VERSION = 1 };

void snapshot_send(struct client *client);

#endif
