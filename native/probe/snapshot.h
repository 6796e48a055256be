/* All that the probe knows, sent to a client. */
#ifndef DBALLOC_PROBE_SNAPSHOT_H
#define DBALLOC_PROBE_SNAPSHOT_H

enum { SNAPSHOT_VERSION = 1 };

void snapshot_send(int client);

#endif
