import { section } from "./row.ts";

/** What an installation guarantees: speed, durability, operation, and how it is built. */
export const SHOW = {
  ...section("docs/guarantees.md", {
    "show.first-answer": "After `npm start` the printed sync curl answers within a second.",
    "show.cold.first": 'The first call ever takes at most 3 times `python3 -c "import main"`.',
    "show.cold.template":
      "With a kept template a cold start takes at most 50 ms, though the import takes 2 s.",
    "show.cold.scale-out": "Scaling an app whose import takes 2 s from 1 to 8 replicas takes at most 200 ms.",
    "show.1000-calls":
      "1,000 calls at once with max_replicas = 2 are all answered, none over replica_concurrency, in bounded memory.",
    "show.kill-replica":
      "kill -9 of a replica in mid-call: that caller gets 502 within a second, and no other caller notices.",
    "show.cancel": "Random cancels never touch another call, of def and async def, at concurrency 1 and 8.",
    "show.big-integer": "The integer 9007199254740993 goes through unchanged both ways.",
    "show.subprocess-run": "`from subprocess import run` in main.py makes nothing callable.",
    "show.disturb": "A print, a subprocess, a fork, or closing fd 0, 1 and 2 in the app disturbs nothing.",
    "show.scale.runs": "With millions of records any page of the runs list comes within 50 ms.",
    "show.scale.apps": "A thousand apps cost a call at most 5 % more CPU time than one.",
    "faults.postgres":
      "Whatever befalls Postgres sync calls go on, async ones end once or are refused for good, and nothing is restarted.",
    "faults.postgres.readyz":
      "/readyz is 503 while the database takes no writes, whatever its reason, and 200 when it does again.",
    "memory.idle": "A service with nothing to do collects its garbage, once for each time that it grew.",
    "memory.given-back":
      "A minute after load ends the service holds at most 150 MB, with one app and one replica.",
    "show.soak":
      "Under mixed load and faults all that was accepted ends, once; nothing is left, and memory, log and p99 stay flat.",
    "shared.late-apps":
      "A service takes over the runs of an app deployed beside it after its start, and fetches the app's files.",
    "shared.folders":
      "Services that share a folder neither remove nor rewrite bundles and environments that another one uses or makes.",
    "lease.late-start":
      "A service takes over only from a dead one: never soon after a start, an outage or a change of the clock.",
    "lease.file-runs": "A service that stops keeps its lease while it waits for a file run.",
  }),
  ...section("docs/operations.md: Backup", {
    "operations.backup": "backup saves everything into one private file; restore makes a directory of it.",
    "operations.restore.checked":
      "restore refuses a full directory, and an archive that was made or changed.",
    "show.backup": "A backup under load, restored in another place, has lost nothing accepted before it.",
  }),
  ...section("docs/operations.md: When something is wrong", {
    "operations.metrics": "/metrics shows runs, queues, replicas, webhooks, lag, commits, and no lost run.",
    "operations.metrics.batches": "/metrics shows the sizes of batches and why they left, by function.",
    "operations.metrics.documented": "docs/metrics.md lists every metric with its labels, and no other.",
    "operations.logs": "Nothing the service logs holds a token, a body or a secret.",
    "operations.doctor": "doctor checks what a start depends on and says for each fault what to do.",
    "doctor.schema": "doctor compares the schema with what it should be, and names what is missing.",
    "doctor.repair": "doctor finds versions without what they start with; --repair installs packages again.",
    "doctor.hang":
      "doctor ends while the disk or the service hangs, and leaves at most one thread in the service.",
  }),
  ...section("docs/metrics.md", {
    "metrics.functions":
      "/metrics has response, queue, cold start and execution times, errors and calls in flight by function.",
    "metrics.hosted":
      "/metrics has the hosted original's metrics by its names and labels, with the same counts.",
    "metrics.zero": "Every series of an app exists from its deploy, at 0.",
    "metrics.causes": "/metrics tells failures of callers from those of an app and the service.",
    "metrics.bounded": "There are as many series as the document says, whatever callers send.",
    "metrics.queues": "/metrics has the depth of each app's queue by priority.",
    "metrics.openmetrics":
      "A scraper that asks for OpenMetrics gets it, with the trace of a run as an exemplar.",
    "metrics.otlp":
      "An OpenTelemetry collector gets all metrics, times as exponential histograms; one that is away costs nothing.",
    "metrics.scrape": "10,000 apps cost a scrape a second of a processor at most, and it comes in pieces.",
    "metrics.prometheus": "A real Prometheus scrapes a real service, and takes every sample.",
  }),
  ...section("docs/metrics.md: Dashboards", {
    "metrics.dashboards": "Every expression of every panel of the dashboards gives data.",
  }),
  ...section("docs/metrics.md: Alerts", {
    "metrics.alerts": "Each alert fires when it should and not when it should not; each has a runbook line.",
  }),
  ...section("docs/operations.md: Upgrade", {
    "show.upgrade": "A database of an earlier schema is brought up to date, and keeps what is stored.",
    "upgrade.frozen": "A released migration never changes.",
    "upgrade.whole": "A migration that fails leaves the database as it was.",
    "upgrade.unreleased":
      "Data from before the first release is refused, unchanged, with the commit that can still read it.",
    "upgrade.unlimited":
      "On Postgres a migration has no limit of time, and the log says before it that it begins.",
  }),
  ...section("docs/operations.md: The data directory", {
    "moved.starts":
      "A data directory that was moved, or restored from a backup of a moved one, works at the next start.",
    "moved.says-what": "A missing bundle, environment or interpreter is named, with what to do about it.",
    "async.predecessor":
      "A service that starts on a data directory takes over what its dead predecessor there had, at once.",
    "async.predecessor.clone":
      "On a clone of a disk only a service that ended there since the machine started counts as dead.",
    "start.key-whole":
      "A first start that is cut off, or finds the disk full, leaves no half of a master key behind.",
    "start.no-room": "A start that lacks storage names the directory, the cause and what to do about it.",
  }),
  ...section("docs/operations.md: What is removed", {
    "retention.table":
      "docs/operations.md lists all that grows, with the settings that bound it, their defaults and the check of doctor.",
    "retention.audit": "Old entries of the audit log go; what is left can still be proved.",
    "retention.each-step": "A fault that lasts in one step of retention keeps no other from its work.",
    "cli.storage":
      "`millrace storage` says who uses the disk, as doctor does; without a service it changes nothing.",
    "doctor.storage": "doctor says how much there is of what grows, and when old things go to make room.",
    "deploy.delete.frees":
      "A deleted app takes lines, payloads, builds, bundles and environments with it, at once, in bytes on disk.",
    "storage.gives-back":
      "SQLite's file shrinks beside the load when its content is removed, and that needs no room itself.",
  }),
  ...section("docs/operations.md: When the disk fills", {
    "show.small-disk":
      "On a disk that fills and empties sync calls go on, async ones are refused in time, and nothing accepted is lost.",
    "show.write-errors":
      "While writes fail at random, every accepted run ends once, and no refused one is executed.",
    "storage.reserve.plain":
      "Within the disk's reserve plain calls and streams store no record: the reserve is for accepted runs.",
    "storage.free-pages":
      "Free pages inside the file count as room; a refusal says what is free and kept back.",
    "run-once.reserve": "Within the disk's reserve no file run is taken.",
    "doctor.reserve":
      "doctor says that the disk is low where the service refuses runs for it, and only there.",
    "deploy.upload.refused":
      "An upload that the disk has no room for is refused with the reason, which its sender can read.",
  }),
  ...section("docs/logs.md: Limits", {
    "logs.share":
      "Lines that apps print have a share, max_logs, of the installation and per app; the oldest go first.",
    "logs.share.fair":
      "Past the installation's max_logs lines go of the app that uses most, not of a quiet one.",
    "logs.reserve":
      "Lines never take the disk's reserve: near it an app's own older lines go, within it none is stored.",
  }),
  ...section("docs/guarantees.md: When something happens to Postgres", {
    "async.in-doubt":
      "A commit whose answer was lost is looked up before the caller is answered; a refused run never runs, others once.",
    "async.adopted":
      "A call that becomes async while it runs is executed once and answered when it ends, also if storage is lost.",
    "async.claim-review":
      "Every minute, claims in the store are compared with the work in progress: no run and no delivery stays claimed.",
    "silence.breaker":
      "No call waits longer than 5 s in all for a silent database; others are refused at once until it answers a probe.",
    "silence.sync": "Sync calls with tokens seen before go on while the database says nothing.",
    "silence.management":
      "While the database says nothing the management API and async calls are 503 with Retry-After, and /readyz tells it.",
    "silence.recovery":
      "When the database answers again all is as before: every accepted run is on record, no connection is left over.",
    "silence.grace":
      "A token seen before counts for 5 minutes while the database cannot be asked; it is checked in the background.",
    "silence.disk":
      "Files that hang delay no check of a token and no sign-in: a revoked token stops within 5 s.",
    "silence.drained":
      "A service that stops answers callers whose runs are in doubt with in_doubt, and cuts no connection.",
    "lease.apart":
      "Whatever table is locked, leases are renewed, and each kind of read and write has connections of its own.",
    "lease.standstill":
      "What a frozen service holds in the database is released before callers of other services are refused.",
    "lease.dead-connection":
      "A connection that dies without a word, also amid a transaction, costs a living service no lease.",
    "reads.in-time":
      "A read from Postgres, and a write that a caller waits for, is given up within 5 s, whatever it waits for.",
    "postgres.conflicts":
      "A write in conflict with another transaction is done again, whatever isolation the server has as its default.",
  }),
  ...section("docs/operations.md: Postgres", {
    "config.database-hosts":
      "A Postgres address may name several hosts: the one that takes writes is used, and the next when that changes.",
  }),
  ...section("docs/webhooks.md: Retries", {
    "webhook.every-end":
      "Whatever a receiver answers, an attempt at a webhook ends, also if it switches protocols.",
  }),
  ...section("docs/gpus.md: What works", {
    "doctor.cuda":
      "Where there is an NVIDIA GPU, doctor starts CUDA behind the isolation of apps, and names what stops it.",
  }),
  ...section("docs/benchmarks.md", {
    "bench.verdicts":
      "npm run bench compares each part of the service with a bare equivalent or peers, and names missed targets.",
  }),
  ...section("ARCHITECTURE.md: Rooms and layers", {
    "design.layers":
      "A file imports from its own room and layers below: never another room of its layer, no circle, no barrel.",
    "design.run-moves": "A run's state changes only by the moves of one table, which every write goes by.",
    "design.shapes":
      "What the API answers is described once; the dashboard and the CLI take types from there and check what they read.",
    "show.no-long-file":
      "A file holds one idea: none of the repository is longer than the bound of the architecture test.",
  }),
};
