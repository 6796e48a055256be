-- results.sqlite. Sizes in bytes, times in seconds, `t` in seconds since the trial's start, `started` and `ended` in
-- seconds since the epoch. Append-only: a trial and all that belongs to it is one transaction.

-- What holds for the whole campaign: format, dballoc, identity, experiment (TOML), started, environment (JSON), …
CREATE TABLE campaign (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

-- A variant, resolved on this machine.
CREATE TABLE variant (
  name              TEXT PRIMARY KEY,
  allocator         TEXT NOT NULL,
  allocator_version TEXT NOT NULL,
  libraries         TEXT NOT NULL,  -- JSON list of the files preloaded
  environment       TEXT NOT NULL,  -- JSON: what the server is started with beyond the clean environment
  server            TEXT NOT NULL,  -- MariaDB 10.11.19
  server_version    TEXT NOT NULL,
  engine            TEXT NOT NULL,
  command           TEXT NOT NULL,  -- JSON: argv with placeholders for the paths of a trial
  pool_bytes        INTEGER,        -- the engine's cache, for peak / pool
  thp               TEXT            -- what was asked for: mode, defrag, sizes; NULL: as the host has it
) WITHOUT ROWID;

-- One attempt at a block. A noisy one is followed by the next attempt, which counts instead.
CREATE TABLE block (
  design       TEXT NOT NULL CHECK (design IN ('solo', 'duet')),
  block        INTEGER NOT NULL,
  attempt      INTEGER NOT NULL,
  started      REAL NOT NULL,
  ended        REAL NOT NULL,
  steal        REAL NOT NULL,       -- share of all CPU time
  others       REAL NOT NULL,       -- share of all CPU time used by processes that are not ours
  probe_before REAL NOT NULL,       -- seconds of the fixed probe
  probe_after  REAL NOT NULL,
  disturbed    TEXT,                -- why it counts as disturbed
  PRIMARY KEY (design, block, attempt)
) WITHOUT ROWID;

-- Attempts at blocks that other hosts finished before the look that comes before them was judged (bench --ray). They move
-- to table block when it is, unless it ended the design: then they enter no verdict.
CREATE TABLE block_ahead (
  design       TEXT NOT NULL CHECK (design IN ('solo', 'duet')),
  block        INTEGER NOT NULL,
  attempt      INTEGER NOT NULL,
  started      REAL NOT NULL,
  ended        REAL NOT NULL,
  steal        REAL NOT NULL,
  others       REAL NOT NULL,
  probe_before REAL NOT NULL,
  probe_after  REAL NOT NULL,
  disturbed    TEXT,
  PRIMARY KEY (design, block, attempt)
) WITHOUT ROWID;

-- Of a campaign on several hosts (bench --ray): a host.
CREATE TABLE host (
  host        TEXT PRIMARY KEY,
  kernel      TEXT NOT NULL,        -- the boot ID of its kernel: hosts with the same one share their settings
  environment TEXT NOT NULL         -- JSON, as the fact of that name
) WITHOUT ROWID;

-- Which host an attempt at a block was given to. One without a row in table block was cut: its host was lost, or dballoc stopped.
CREATE TABLE placement (
  design  TEXT NOT NULL CHECK (design IN ('solo', 'duet')),
  block   INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  host    TEXT NOT NULL,
  client  TEXT,                     -- the host of its clients; NULL: the same
  PRIMARY KEY (design, block, attempt)
) WITHOUT ROWID;

-- The trials that hosts have under way (bench --ray). A row goes when its trial is stored, or given up; one that is left is of a
-- driver that went without a word.
CREATE TABLE trial_under_way (
  design   TEXT NOT NULL CHECK (design IN ('solo', 'duet')),
  block    INTEGER NOT NULL,
  attempt  INTEGER NOT NULL,
  position INTEGER NOT NULL,
  host     TEXT NOT NULL,
  kernel   TEXT NOT NULL,           -- as the host had it then
  started  REAL NOT NULL,
  PRIMARY KEY (design, block, attempt, position)
) WITHOUT ROWID;

-- One server start of one variant. The two of a duet have the same place; the baseline's is A1. The pilot, which sizes
-- the duet, has block 0.
CREATE TABLE trial (
  trial           INTEGER PRIMARY KEY,
  design          TEXT NOT NULL CHECK (design IN ('solo', 'duet', 'pilot')),
  block           INTEGER NOT NULL,
  attempt         INTEGER NOT NULL,
  position        INTEGER NOT NULL,
  variant         TEXT NOT NULL,
  role            TEXT NOT NULL CHECK (role IN ('A1', 'A2', 'V')),
  level           INTEGER,          -- with levels = "fresh"
  workload        TEXT,             -- with sequence = "fresh"
  directory       TEXT NOT NULL,
  started         REAL NOT NULL,
  ended           REAL NOT NULL,
  seconds_planned REAL NOT NULL,    -- of it: measuring, warming up or idling on purpose
  outcome         TEXT NOT NULL CHECK (outcome IN ('ok', 'fault')),
  fault           TEXT,             -- start, hang, died, oom, client, disk, proof, replication, host lost
  fault_text      TEXT,
  exit_status     INTEGER,          -- of the server; negative: a signal
  log_tail        TEXT,
  proof           TEXT,             -- JSON
  thp             TEXT,             -- as achieved
  cpus            TEXT,             -- as achieved, of the server
  seconds_to_start REAL,
  rss_start       INTEGER,
  rss_peak        INTEGER,
  rss_idle        INTEGER,
  sampler_cpu     REAL,             -- CPU seconds that sampling this server took
  samples         INTEGER,
  server_user     REAL,             -- the server's CPU seconds over its whole life
  server_system   REAL,
  UNIQUE (design, block, attempt, position, role)
);

-- A step within a trial. Counters are the server's own, over the window in which the load was reported.
CREATE TABLE step (
  trial        INTEGER NOT NULL REFERENCES trial,
  step         INTEGER NOT NULL,
  kind         TEXT NOT NULL CHECK (kind IN ('sql', 'warmup', 'level', 'idle')),
  workload     TEXT,
  threads      INTEGER,
  t            REAL NOT NULL,
  seconds      REAL NOT NULL,
  events       INTEGER,
  queries      INTEGER,
  tps          REAL,
  qps          REAL,
  errors       INTEGER,
  reconnects   INTEGER,
  latency_min  REAL,                -- all latencies in milliseconds
  latency_avg  REAL,
  latency_max  REAL,
  p50          REAL,
  p95          REAL,
  p99          REAL,
  p999         REAL,
  window       REAL,                -- seconds that the following cover
  window_events INTEGER,
  cpu          REAL,
  cpu_user     REAL,
  cpu_system   REAL,
  voluntary    INTEGER,
  involuntary  INTEGER,
  written      INTEGER,                 -- bytes sent to storage
  minor_faults INTEGER,
  major_faults INTEGER,
  rss_start    INTEGER,
  rss_mean     REAL,
  rss_peak     INTEGER,
  rss_end      INTEGER,
  PRIMARY KEY (trial, step)
) WITHOUT ROWID;

-- About one a second, all steps.
CREATE TABLE sample (
  trial        INTEGER NOT NULL REFERENCES trial,
  step         INTEGER NOT NULL,
  t            REAL NOT NULL,
  rss          INTEGER NOT NULL,
  vsz          INTEGER NOT NULL,
  reserved     INTEGER NOT NULL,    -- of vsz: address space that cannot be touched
  swap         INTEGER NOT NULL,
  cpu          REAL NOT NULL,       -- these since the server's start
  cpu_user     REAL NOT NULL,
  cpu_system   REAL NOT NULL,
  minor_faults INTEGER NOT NULL,
  major_faults INTEGER NOT NULL,
  threads      INTEGER NOT NULL,
  voluntary    INTEGER NOT NULL,
  involuntary  INTEGER NOT NULL,
  PRIMARY KEY (trial, t)
) WITHOUT ROWID;

-- What the whole host did, with every sample of a solo trial: CPU seconds of all its CPUs, and context switches, since its boot
-- (/proc/stat).
CREATE TABLE host_sample (
  trial    INTEGER NOT NULL REFERENCES trial,
  step     INTEGER NOT NULL,
  t        REAL NOT NULL,
  user     REAL NOT NULL,           -- with nice
  system   REAL NOT NULL,           -- with interrupts
  idle     REAL NOT NULL,
  iowait   REAL NOT NULL,
  steal    REAL NOT NULL,
  switches INTEGER NOT NULL,
  reschedules INTEGER,              -- rescheduling interrupts (/proc/interrupts)
  PRIMARY KEY (trial, t)
) WITHOUT ROWID;

-- The same over a step's window.
CREATE TABLE host_step (
  trial    INTEGER NOT NULL REFERENCES trial,
  step     INTEGER NOT NULL,
  user     REAL NOT NULL,
  system   REAL NOT NULL,
  idle     REAL NOT NULL,
  iowait   REAL NOT NULL,
  steal    REAL NOT NULL,
  switches INTEGER NOT NULL,
  PRIMARY KEY (trial, step)
) WITHOUT ROWID;

-- What a client on a host of its own did in a step of load (bench --ray with client hosts), from its first report to its last.
CREATE TABLE client_step (
  trial       INTEGER NOT NULL REFERENCES trial,
  step        INTEGER NOT NULL,
  host        TEXT NOT NULL,        -- the client host
  seconds     REAL NOT NULL,
  cpu         REAL NOT NULL,        -- CPU seconds of the client itself
  cpus        INTEGER NOT NULL,     -- CPUs that it could use, by its affinity and its cgroups' quota
  busy        REAL NOT NULL,        -- share of the client host's CPU time, steal included
  throttled   REAL,                 -- share of the quota's periods in which it was used up
  received    INTEGER NOT NULL,     -- bytes over the interface to the server
  sent        INTEGER NOT NULL,
  link        INTEGER,              -- speed of the slower of both hosts' interfaces, bits a second; NULL: no system tells
  round_trip  REAL NOT NULL,        -- seconds of the fastest of some cheap statements, before the load
  PRIMARY KEY (trial, step)
) WITHOUT ROWID;

-- Connections that clients made to a trial's server after its start, by its own counts (SHOW GLOBAL STATUS), dballoc's own left
-- out. Nothing of a server that had a fault, or that does not count this.
CREATE TABLE client_connection (
  trial     INTEGER PRIMARY KEY REFERENCES trial,
  tls       TEXT NOT NULL,          -- the versions of TLS that the server offers; empty: none
  made      INTEGER NOT NULL,
  encrypted INTEGER NOT NULL
);

-- The load's own report, one a second.
CREATE TABLE interval (
  trial      INTEGER NOT NULL REFERENCES trial,
  step       INTEGER NOT NULL,
  t          REAL NOT NULL,         -- its end
  seconds    REAL NOT NULL,
  threads    INTEGER NOT NULL,
  events     INTEGER NOT NULL,
  queries    INTEGER NOT NULL,
  latency    REAL,                  -- milliseconds, the percentile of the experiment; none of a client that tells none
  errors     INTEGER NOT NULL,
  reconnects INTEGER NOT NULL,
  PRIMARY KEY (trial, t)
) WITHOUT ROWID;

-- Latency distribution of a level.
CREATE TABLE histogram (
  trial INTEGER NOT NULL REFERENCES trial,
  step  INTEGER NOT NULL,
  ms    REAL NOT NULL,              -- a bucket's upper bound
  count INTEGER NOT NULL,
  PRIMARY KEY (trial, step, ms)
) WITHOUT ROWID;

-- An exact snapshot of memory, at the end of each step and before the first.
CREATE TABLE mark (
  trial     INTEGER NOT NULL REFERENCES trial,
  step      INTEGER NOT NULL,       -- 0: after the start
  t         REAL NOT NULL,
  rss       INTEGER NOT NULL,
  pss       INTEGER NOT NULL,
  anon_huge INTEGER NOT NULL,
  reserved  INTEGER NOT NULL,
  read_only INTEGER NOT NULL,
  mappings  INTEGER NOT NULL,
  PRIMARY KEY (trial, step)
) WITHOUT ROWID;

-- Where a server's memory was at the end of a solo trial's load, read from outside (dballoc explain). The lines add up to RSS;
-- the owner "rest" has the pages that no class claims.
CREATE TABLE ledger (
  trial    INTEGER NOT NULL REFERENCES trial,
  line     INTEGER NOT NULL,
  part     TEXT NOT NULL,           -- server, heap, threads, files, rest
  owner    TEXT NOT NULL,
  resident INTEGER NOT NULL,
  size     INTEGER NOT NULL,
  PRIMARY KEY (trial, line)
) WITHOUT ROWID;

-- A duet's load, a quarter of a second each or less; the start of every slice is left out. In slice n of a workload the two servers of
-- a duet had the halves of the CPUs, and in slice n + 1 each had the other's.
CREATE TABLE slice (
  trial    INTEGER NOT NULL REFERENCES trial,
  workload TEXT NOT NULL,
  slice    INTEGER NOT NULL,        -- from 0
  piece    INTEGER NOT NULL,
  half     INTEGER NOT NULL,        -- 0 or 1: where the server was
  t        REAL NOT NULL,
  seconds  REAL NOT NULL,
  queries  INTEGER NOT NULL,        -- the server's own count
  events   REAL NOT NULL,           -- queries over the client's queries per transaction
  cpu      REAL NOT NULL,           -- seconds of the server's CPU
  idle     REAL NOT NULL,           -- share of the half's CPU time in which nothing ran there
  steal    REAL,                    -- share of it that the hypervisor took; in steps of a clock tick
  PRIMARY KEY (trial, workload, slice, piece)
) WITHOUT ROWID;

-- What the CPU and the kernel counted of a server (perf_event_open(2)) in a step of a solo trial, over its window; only
-- where the host counts it. Events as perf names them: instructions:u, instructions:k, cycles:u, page-faults, …
CREATE TABLE step_counter (
  trial   INTEGER NOT NULL REFERENCES trial,
  step    INTEGER NOT NULL,
  event   TEXT NOT NULL,
  count   INTEGER,                  -- NULL: counted in too little of the time
  running REAL NOT NULL,            -- the share of the server's time in which it was counted
  PRIMARY KEY (trial, step, event)
) WITHOUT ROWID;

-- The same in a slice's pieces.
CREATE TABLE slice_counter (
  trial    INTEGER NOT NULL REFERENCES trial,
  workload TEXT NOT NULL,
  slice    INTEGER NOT NULL,
  piece    INTEGER NOT NULL,
  event    TEXT NOT NULL,
  count    INTEGER,
  running  REAL NOT NULL,
  PRIMARY KEY (trial, workload, slice, piece, event)
) WITHOUT ROWID;

-- What a trial of `dballoc fit` tried: a size of the engine's cache.
CREATE TABLE probe (
  trial      INTEGER PRIMARY KEY REFERENCES trial,
  asked      INTEGER NOT NULL,
  pool_bytes INTEGER                -- as the server itself had it; NULL if it was not asked in time
);

-- What a trial of `dballoc tune` tried. Its block is the number of the trial in the search; the trial's variant is the configuration's
-- name.
CREATE TABLE candidate (
  trial      INTEGER PRIMARY KEY REFERENCES trial,
  stage      TEXT NOT NULL CHECK (stage IN ('replay', 'server')),
  base       TEXT NOT NULL,         -- the variant of the experiment that it changes
  origin     TEXT NOT NULL CHECK (origin IN ('default', 'preset', 'single', 'front', 'search', 'simpler', 'again')),
  parameters TEXT NOT NULL          -- JSON: settings and their values as text
);

-- What a replica did in a step of load on its primary. Its throughput, in table step, is what it applied while the load ran.
CREATE TABLE replica (
  trial       INTEGER NOT NULL REFERENCES trial,
  step        INTEGER NOT NULL,
  primary_tps REAL NOT NULL,        -- transactions that its primary committed
  behind      INTEGER NOT NULL,     -- transactions that were not applied when the load ended
  lag         REAL NOT NULL,        -- seconds: how long ago the primary had been where the replica was then
  waited      REAL NOT NULL,        -- seconds until all was applied, or until waiting ended
  left_behind INTEGER NOT NULL,     -- transactions that were not applied even then
  PRIMARY KEY (trial, step)
) WITHOUT ROWID;

-- What dballoc replay measures of one replay of a trace, beside the trial's and the step's columns (there rss is the heap: the
-- engine's own memory is subtracted). Bytes.
CREATE TABLE replay (
  trial       INTEGER PRIMARY KEY REFERENCES trial,
  events      INTEGER NOT NULL,     -- calls of malloc and its family that were replayed
  malloc_seconds REAL NOT NULL,     -- in malloc's functions, all threads together, from the calls that were timed
  waited      REAL NOT NULL,        -- seconds that threads waited for each other, all together
  own_memory  INTEGER NOT NULL,     -- the engine's own, subtracted from all others
  peak_live   INTEGER NOT NULL,     -- the most that was allocated and not freed, as asked for
  end_live    INTEGER NOT NULL,
  failed      INTEGER NOT NULL,     -- allocations that returned no memory
  lateness    REAL NOT NULL         -- seconds that an event was late at most, where the pace is the recorded one
) WITHOUT ROWID;

-- The heap over the trace's time.
CREATE TABLE replay_point (
  trial INTEGER NOT NULL REFERENCES trial,
  point INTEGER NOT NULL,           -- from 0
  t     REAL NOT NULL,              -- seconds since the trace began, in its own time
  heap  INTEGER NOT NULL,
  live  INTEGER NOT NULL,
  PRIMARY KEY (trial, point)
) WITHOUT ROWID;

-- The heap at the trace's marks.
CREATE TABLE replay_mark (
  trial INTEGER NOT NULL REFERENCES trial,
  mark  INTEGER NOT NULL,           -- from 0, as in the fact "replay"
  heap  INTEGER NOT NULL,
  live  INTEGER NOT NULL,
  PRIMARY KEY (trial, mark)
) WITHOUT ROWID;

-- How long calls took, of a sample of them.
CREATE TABLE replay_latency (
  trial     INTEGER NOT NULL REFERENCES trial,
  operation TEXT NOT NULL,          -- malloc, calloc, aligned, realloc, free, free_sized
  largest   INTEGER NOT NULL,       -- bytes: the largest block of the size class; 2^48: no limit
  calls     INTEGER NOT NULL,
  p50       REAL,                   -- ns; none where nothing was sampled
  p99       REAL,
  PRIMARY KEY (trial, operation, largest)
) WITHOUT ROWID;
