import { section } from "./row.ts";

/** What an app finds around it, how replicas live and die, and how they start fast. */
export const APPS = {
  ...section("contract 2: Apps", {
    "app.import-once": "main.py at the root of the bundle is imported once per replica.",
    "app.module-state": "What module-level code loads is there for every call of the replica.",
    "app.working-directory": "The working directory is the bundle.",
    "app.env.names": "APP_NAME, PROJECT_ID and BUILD_ID are set.",
    "app.env.hf-home": "HF_HOME is under persistent storage.",
    "app.env.secrets": "Secrets are set as environment variables, app over project.",
    "app.storage.env": "$PERSISTENT_STORAGE is a directory of the project that outlives replicas.",
    "app.storage.named": "A deploy whose files name /persistent-storage is warned where that is not there.",
    "app.storage.path": "Persistent storage is at /persistent-storage where the sandbox allows.",
  }),
  ...section("contract 2: Lifecycle", {
    "lifecycle.scale-up": "A call starts replicas as needed, up to max_replicas.",
    "lifecycle.cold-start": "A call is held through the cold start and never fails because of one.",
    "lifecycle.concurrency": "replica_concurrency is a hard limit.",
    "lifecycle.scale-to-zero": "After the cooldown an idle app with min_replicas = 0 has no replica.",
    "lifecycle.min-replicas": "min_replicas replicas stay through any idle time.",
    "lifecycle.scaling-buffer": "scaling_buffer replicas more than needed are kept ready.",
    "lifecycle.load-balancing": "load_balancing_algorithm decides which replica takes a call.",
    "lifecycle.sigterm": "A terminated replica gets no new work and SIGTERM.",
    "lifecycle.in-flight": "What is in flight at termination gets up to response_grace_period.",
    "lifecycle.sigkill": "At its end everything a replica started is killed.",
    "lifecycle.grace-504": "A run past response_grace_period: its caller gets 504 at once, state failure.",
    "lifecycle.grace-stops-code": "The code of a run past response_grace_period is stopped as by cancel.",
    "lifecycle.grace-from-hand-over": "response_grace_period counts from hand-over, not from arrival.",
    "lifecycle.stop.readiness": "At an orderly stop readiness goes off and no new work is taken.",
    "lifecycle.stop.grace": "At an orderly stop what runs has MILLRACE_SHUTDOWN_GRACE to finish.",
    "lifecycle.stop.sync": "At the end of that grace sync callers get 503.",
    "deploy.new-version": "Every deploy is a new version.",
    "deploy.old-replicas": "Old replicas finish what they hold.",
    "deploy.failed": "A failed deploy leaves the old version serving.",
  }),
  ...section("contract 2: scaling", {
    "scaling.interval":
      "A metric is measured over evaluation_interval_seconds, at a pace of its own, by no call.",
    "scaling.rate":
      "requests_per_second keeps the calls of the interval per second and replica at scaling_target.",
    "scaling.cpu":
      "cpu_utilization keeps the processor time of replicas and all they started at scaling_target percent of cpu.",
    "scaling.memory":
      "memory_utilization keeps the resident memory of replicas and all they started at scaling_target percent of memory.",
    "scaling.hard-limits":
      "Whatever the metric: a waiting call starts the first replica, and max_replicas is never exceeded.",
    "scaling.idle": "Whatever the metric: an app that is idle for its cooldown has min_replicas.",
  }),
  ...section("seed: Asynchronous mode 4; contract 2: Lifecycle", {
    "lifecycle.idle": "When the function has returned the replica is idle, whatever threads it left behind.",
    "lifecycle.cooldown": "The termination of an idle replica begins with the cooldown.",
  }),
  ...section("docs/wire.md: The life of a replica", {
    "replica.python-versions": "The harness is standard library only and compiles on Python 3.9 to 3.14.",
    "replica.ticket": "A replica calls home with a one-time ticket, and no other connection is taken.",
    "replica.log-tagged": "Log lines of an app are tagged with the run that wrote them.",
    "replica.process-group": "Each replica runs in its own process group.",
    "replica.environment":
      "A replica's environment is an allow-list: no key, no database URL, nothing of ours.",
    "replica.crash-loop": "A replica that crash-loops is started again with growing gaps.",
    "replica.daemons": "A double-forked daemon dies with its replica.",
    "replica.service-death": "Every replica and all it started die with the service, by kill -9 too.",
    "records.behind": "Sync run records are written behind in batches, never on the caller's path.",
    "store.both": "The same store suite passes on SQLite and on a real Postgres.",
    "store.pragmas": "SQLite runs with WAL and synchronous=FULL, read back at open.",
    "store.group-commit": "A write is answered only after its group is committed.",
  }),
  ...section("docs/decisions/0024-signs-of-life.md", {
    "replica.template-dead":
      "A template that owes a fork for 5 s and is stopped, a zombie or does nothing is replaced; its replicas go on.",
    "replica.silent.dead":
      "A replica that is silent for 5 s and stopped, a zombie or without work done by any thread is ended.",
    "replica.silent.computing": "A silent replica that computes gets no new call, and is not killed.",
    "replica.silent.calls":
      "What a dead replica had not begun goes to another; what had begun is 502, and async is tried again.",
    "replica.silent.awake": "A service that slept, or was busy itself, takes no replica for dead.",
  }),
  ...section("docs/decisions/0004-templates-keepers-and-forks.md", {
    "fork.template": "The first replica of a version is a template, and further ones are forks of it.",
    "fork.thread": "An app whose import left a thread is not forked, and works.",
    "fork.open-file":
      "An app whose import left a socket, pipe, epoll or writable file is not forked, and works.",
    "fork.reseeds": "A forked replica reseeds random and numpy's generator: replicas draw different numbers.",
    "fork.template-lost": "A template that has closed its connection is asked for no more replicas.",
    "fork.ordinary": "A template that may not fork serves, and its siblings start the ordinary way.",
    "fork.never": 'fork = "never" starts every replica the ordinary way.',
    "fork.kept": "A template outlives scale-to-zero for template_keep.",
    "fork.secrets": "A change of secrets retires the templates.",
  }),
  ...section("contract 5: Names decided for what comes, reserved functions", {
    "setup.once": "A function setup without parameters runs once per replica, before its first call.",
    "setup.not-callable": "setup is 404 to callers, and in no list of functions.",
  }),
  ...section("docs/api.md: Setup of a replica", {
    "setup.template": "Forks share what the import made; each runs setup() itself, after the fork.",
    "setup.async": "async def setup() runs on the event loop of later calls, and its tasks run on.",
    "setup.own": "setup() is one that main.py defines, or that __all__ names; an imported one is not run.",
    "setup.fails": "If setup() raises, calls get app_not_ready, and the log has the traceback.",
    "setup.refused":
      "A setup() with required parameters, or that yields, is refused, and told what to change.",
    "setup.timeout": "setup() counts toward deployment_initialization_timeout.",
    "setup.crash-loop": "A setup() that fails again and again is tried with growing gaps.",
    "setup.killed": "A stop, or a signal, ends a replica in the middle of its setup() at once.",
    "setup.log": "What setup() prints is in the app's log.",
    "setup.server-timing": "Server-Timing of a call that waited for setup() tells how long.",
    "setup.build-log": "The build's log says how long setup() took.",
  }),
};
