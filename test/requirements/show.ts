import { section } from "./row.ts";

/** What each piece must show when it is handed over. */
export const SHOW = {
  ...section("docs/guarantees.md", {
    "show.first-answer": "After `npm start` the printed sync curl answers within a second.",
    "show.cold.first": 'The first call ever takes at most 3 times `python3 -c "import main"`.',
    "show.cold.template":
      "With a kept template a cold start takes at most 50 ms, though the import takes 2 s.",
    "show.cold.scale-out": "Scaling that app from 1 to 8 replicas takes at most 200 ms.",
    "show.1000-calls": "1,000 calls at once with max_replicas = 2 are all answered.",
    "show.1000-calls.concurrency": "Of those 1,000 calls none runs over replica_concurrency.",
    "show.1000-calls.memory": "Those 1,000 calls leave memory bounded.",
    "show.kill-replica": "kill -9 of a replica in mid-call: that caller gets 502 within a second.",
    "show.kill-replica.others": "kill -9 of a replica disturbs no other caller.",
    "show.cancel.def-1": "Random cancels never touch another call: def, concurrency 1.",
    "show.cancel.def-8": "Random cancels never touch another call: def, concurrency 8.",
    "show.cancel.async-1": "Random cancels never touch another call: async def, concurrency 1.",
    "show.cancel.async-8": "Random cancels never touch another call: async def, concurrency 8.",
    "show.fork.numpy": "An app that imports numpy forks, and its replicas draw different random numbers.",
    "show.fork.socket": "An app that opens a socket at import is not forked, and works.",
    "show.fork.thread": "An app that starts a thread at import is not forked, and works.",
    "show.big-integer": "The integer 9007199254740993 goes through unchanged both ways.",
    "show.subprocess-run": "`from subprocess import run` in main.py makes nothing callable.",
    "show.disturb.print": "A print in the app disturbs nothing.",
    "show.disturb.subprocess": "A subprocess of the app disturbs nothing.",
    "show.disturb.fork": "A fork of the app disturbs nothing.",
    "show.disturb.closed-fds": "Closing fd 0, 1 and 2 in the app disturbs nothing.",
    "show.no-long-file": "No file is over 350 lines.",
    "show.no-circle": "There is no import circle.",
  }),
  ...section("docs/operations.md: Backup", {
    "operations.metrics": "/metrics shows runs, queues, replicas, webhooks, lag, commits, and no lost run.",
    "operations.metrics.documented": "docs/metrics.md lists every metric with its labels, and no other.",
    "operations.logs": "Nothing the service logs holds a token, a body or a secret.",
    "operations.backup": "backup saves everything into one private file; restore makes a directory of it.",
    "operations.restore.checked":
      "restore refuses a full directory, and an archive that was made or changed.",
    "operations.doctor": "doctor checks what a start depends on and says for each fault what to do.",
  }),
  ...section("docs/guarantees.md", {
    "show.backup": "A backup under load, restored elsewhere, has lost nothing accepted before it.",
    "show.upgrade": "A database of an earlier schema is brought up to date, and keeps what is stored.",
    "show.scale.runs": "With millions of records any page of the runs list comes within 50 ms.",
    "show.scale.apps": "A thousand apps cost a call at most 5 % more CPU time than one.",
  }),
  ...section("docs/decisions/0003-store.md", {
    "async.in-doubt":
      "A commit in doubt is looked up before the caller is answered; what was refused never runs.",
    "storage.gives-back": "SQLite's file shrinks beside the load when what it held is removed.",
    "storage.free-pages":
      "Free pages inside the file count as room; a refusal says what is free and kept back.",
    "upgrade.frozen": "A released migration never changes.",
    "upgrade.whole": "A migration that fails leaves the database as it was.",
    "upgrade.unreleased":
      "Data from before the first release is refused, unchanged, with the commit that can still read it.",
    "doctor.cuda":
      "Where there is an NVIDIA GPU, doctor starts CUDA behind the isolation of apps, and names what stops it.",
    "doctor.schema": "doctor compares the schema with what it should be, and names what is missing.",
    "async.predecessor":
      "A service that starts on a data directory takes over what its dead predecessor there had, at once.",
  }),
  ...section("docs/operations.md: The data directory", {
    "moved.no-paths": "Nothing in the database names an absolute path of the service.",
    "moved.starts":
      "A data directory that was moved works at the next start, with its apps' packages and scripts.",
    "moved.backup": "A backup of a data directory that was moved is restored to one that works.",
    "moved.says-what": "A missing bundle, environment or interpreter is named, with what to do about it.",
    "doctor.repair": "doctor finds versions without what they start with; --repair installs packages again.",
  }),
  ...section("docs/logs.md: Limits", {
    "logs.share":
      "Lines that apps print have a share, max_logs, of the installation and per app; the oldest go first.",
    "logs.reserve":
      "Lines never take the disk's reserve: near it an app's own older lines go, within it none is stored.",
    "deploy.delete.frees":
      "A deleted app takes lines, payloads, builds, bundles and environments with it, at once, in bytes on disk.",
  }),
  ...section("docs/guarantees.md: When something happens to Postgres", {
    "silence.breaker":
      "No call waits longer than 5 s for a database that says nothing; others are refused at once until it answers a probe.",
    "silence.sync": "Sync calls with tokens seen before go on while the database says nothing.",
    "silence.management":
      "While the database says nothing the management API and async calls are 503 with Retry-After, and /readyz tells it.",
    "silence.recovery":
      "When the database answers again all is as before, and every run that was accepted or answered is on record.",
    "silence.grace":
      "A token seen before counts for 5 minutes while the database cannot be asked, and is asked about in passing.",
    "silence.disk":
      "Files that hang keep no token from being judged and nobody from signing in: a revoked one stops within 5 s.",
  }),
  ...section("docs/guarantees.md", {
    "show.small-disk":
      "On a disk that fills and empties sync calls never stop, and async runs are refused and taken again.",
    "show.small-disk.whole":
      "Of what was accepted on such a disk nothing is lost, the database is intact, and the service never ends by itself.",
    "show.write-errors":
      "While writes fail at random every run that was accepted ends once; all is well when they stop.",
    "storage.reserve.plain":
      "Within the disk's reserve plain calls and streams leave their record alone: it is for what was promised.",
    "deploy.upload.refused": "Who uploads while the disk has no room is told so, and hears it.",
    "async.claim-in-doubt":
      "Runs and webhooks of a claim whose answer was lost are taken again, not left until the next start.",
    "show.write-errors.refusals": "What was refused because a write failed is never executed.",
    "faults.postgres":
      "Whatever befalls Postgres sync calls go on, async ones end once or are refused for good, and nothing is restarted.",
    "faults.postgres.readyz":
      "/readyz is 503 while the database takes no writes, whatever its reason, and 200 when it does again.",
    "config.database-hosts":
      "A Postgres address may name several hosts: the one that takes writes is used, and the next when that changes.",
    "memory.idle": "A service with nothing to do collects its garbage, once for each time that it grew.",
    "memory.given-back":
      "A minute after load ends the service holds at most 150 MB, with one app and one replica.",
    "show.soak":
      "Under mixed load and faults all that was accepted ends, once; nothing is left, and memory, log and p99 stay flat.",
  }),
  ...section("docs/operations.md: What is removed", {
    "retention.table":
      "docs/operations.md lists all that grows, with the settings that bound it, their defaults and the check of doctor.",
    "retention.audit": "Old entries of the audit log go; what is left can still be proved.",
    "cli.storage": "millrace storage prints who uses what of the disk.",
    "doctor.storage": "doctor says how much there is of what grows, and when old things go to make room.",
  }),
  ...section("docs/operations.md: When the disk fills", {
    "storage.gives-back.log":
      "Giving room back takes none: it stops while a reader holds SQLite's log, which is cut off at the end.",
    "cli.storage.looks": "millrace storage without a service changes nothing: no migration, no new database.",
    "cli.storage.one-truth":
      "storage and doctor say the same of the same: deleted apps count, and limits are those of the service.",
    "doctor.hang":
      "doctor ends while the disk or the service hangs, and leaves at most one thread in the service.",
    "start.no-room": "A start that lacks storage names the directory, the cause and what to do about it.",
    "logs.share.fair":
      "Past the installation's max_logs lines go of the app that uses most, not of a quiet one.",
    "retention.each-step": "A fault that lasts in one step of retention keeps no other from its work.",
    "async.predecessor.clone":
      "On a clone of its disk nobody is taken for dead: only a service that ended there since the machine started.",
    "moved.shared": "Services whose environments are links to one place do not rewrite them for each other.",
    "cli.storage.steps":
      "millrace storage counts in bounded steps beside quick reads: it ends however many runs there are.",
  }),
  ...section("docs/guarantees.md: When something happens to Postgres", {
    "async.in-doubt.every-loss":
      "A write that was sent is in doubt however its answer was lost; only the server's word that it failed refuses it.",
    "async.claim-review":
      "Every minute what the store says is ours is compared with what is executed: nothing stays running for nobody.",
    "async.in-doubt.once":
      "A run whose commit was in doubt is executed once, also where another service took it over before it was known.",
    "webhook.claim-review":
      "Every minute deliveries that the store says are ours are compared with those we know of, and due again if unknown.",
    "run-once.in-doubt":
      "A file run whose commit is in doubt is looked up like any other; one that nobody runs ends without a restart.",
    "run-once.reserve": "Within the disk's reserve no file run is taken.",
    "doctor.reserve":
      "doctor says that the disk is low where the service refuses runs for it, and only there.",
    "silence.connections":
      "However often the database falls silent, no connection to it is left behind when it is back.",
    "lease.apart":
      "Whatever table is locked, a service renews its lease, and no kind of write takes the connections of another.",
    "lease.callers":
      "A write that a caller waits for gives a locked table up within 5 s, and is surely not done.",
    "lease.standstill":
      "What a service holds in the database that stands still is free before callers of others are refused.",
    "lease.dead-connection":
      "A connection that dies without a word, also amid a transaction, costs a living service no lease.",
    "lease.one-judge":
      "However long it waits for a locked table, a service looks for the runs of the dead once at a time.",
    "reads.apart":
      "Whatever table is locked against reading, no kind of read takes the connections of another.",
    "reads.in-time": "A read from Postgres is given up within 5 s, whatever it waits for.",
    "postgres.conflicts":
      "A write in conflict with another transaction is done again, whatever isolation the server has as its default.",
    "lease.late-judge":
      "After a time in which nobody could renew a lease no service takes over the runs of another that lives.",
    "upgrade.unlimited":
      "On Postgres a migration has no limit of time, and the log says before it that it begins.",
    "silence.one-deadline":
      "A call that is under way when the database falls silent is answered within 5 s from when it was to be stored.",
    "silence.drained":
      "A service that stops answers who waits for what nobody knows with in_doubt, and cuts no connection.",
    "async.adopted-doubt":
      "A call that becomes async while storage is lost is answered when its run ends, and its record tells how it did.",
    "async.adopted-once":
      "A call that becomes async while it runs is executed once, also when its commit and a claim are in doubt together.",
  }),
  ...section("docs/guarantees.md", {
    "webhook.every-end":
      "Whatever a receiver answers, an attempt at a webhook ends: also where it turns to another protocol.",
    "lease.late-start":
      "A service that starts takes over at once only from services it knows to be dead; others get time to renew.",
    "lease.file-runs": "A service that stops keeps its lease while it waits for a file run.",
    "shared.late-apps":
      "A service takes over the runs of an app deployed beside it after its start, and fetches the app's files.",
    "shared.bundles":
      "A service that starts removes no bundle from a shared folder that another one is about to deploy.",
    "shared.environments":
      "A service removes no environment from a shared folder that another one may be making at that moment.",
    "start.key-whole":
      "A first start that is cut off, or finds the disk full, leaves no half of a master key behind.",
    "kept.clock":
      "A date that was wrong when the service started, or is set wrong later, removes nothing that is new.",
    "idempotency.clock": "A key counts for 24 h whatever the date is set to meanwhile.",
  }),
  ...section("ARCHITECTURE.md: Rooms and layers", {
    "design.layers": "A file imports its own folder and layers below, never another folder of its layer.",
    "design.no-barrels": "There are no barrels.",
    "design.run-moves": "A run's state changes only by the moves of one table, which every write goes by.",
    "design.shapes":
      "What the API answers is described once; the dashboard and the CLI take types from there and check what they read.",
  }),
};
