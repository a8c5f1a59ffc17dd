import { APPS } from "./requirements/apps.ts";
import { ASYNC } from "./requirements/async.ts";
import { BLOBS } from "./requirements/blobs.ts";
import { CALLERS } from "./requirements/callers.ts";
import { CHANGES } from "./requirements/changes.ts";
import { CLUSTER } from "./requirements/cluster.ts";
import { CONFIG } from "./requirements/config.ts";
import { DASHBOARD } from "./requirements/dashboard.ts";
import { DEPLOY } from "./requirements/deploy.ts";
import { POD_BUILDS } from "./requirements/pod-builds.ts";
import { ERRORS } from "./requirements/errors.ts";
import { LINE_BATCHES } from "./requirements/line-batches.ts";
import { BATCHING } from "./requirements/batching.ts";
import { GPU_GRANTS } from "./requirements/gpu-grants.ts";
import { GPUS } from "./requirements/gpus.ts";
import { GPU_MACHINE } from "./requirements/gpu-machine.ts";
import { HARDENING } from "./requirements/hardening.ts";
import { HARDWARE } from "./requirements/hardware.ts";
import { HOSTED } from "./requirements/hosted.ts";
import { IDENTITY } from "./requirements/identity.ts";
import { IMAGES } from "./requirements/images.ts";
import { KUBERNETES } from "./requirements/kubernetes.ts";
import { LIMITS } from "./requirements/limits.ts";
import { MANAGEMENT } from "./requirements/management.ts";
import { MOVING } from "./requirements/moving.ts";
import { NODES } from "./requirements/nodes.ts";
import { ORIGINS } from "./requirements/origins.ts";
import { PEERS } from "./requirements/peers.ts";
import { RUN } from "./requirements/run.ts";
import { RAY } from "./requirements/ray.ts";
import { QUEUES } from "./requirements/queues.ts";
import { SCHEDULES } from "./requirements/schedules.ts";
import { SEATS } from "./requirements/seats.ts";
import { SERVERS } from "./requirements/servers.ts";
import { SHOW } from "./requirements/show.ts";
import { START } from "./requirements/start.ts";
import { STORAGE } from "./requirements/storage.ts";
import { STREAMING } from "./requirements/streaming.ts";
import { TOOLS } from "./requirements/tools.ts";
import { TRACES } from "./requirements/traces.ts";
import { USAGE } from "./requirements/usage.ts";
import { WALLS } from "./requirements/walls.ts";
import { WIRE } from "./requirements/wire.ts";

/** The tables one by one, so that a test can see an id that stands in two of them. */
export const TABLES = [
  START,
  RUN,
  ASYNC,
  STREAMING,
  ERRORS,
  APPS,
  DEPLOY,
  CONFIG,
  IDENTITY,
  CALLERS,
  MANAGEMENT,
  SHOW,
  TOOLS,
  WIRE,
  DASHBOARD,
  HARDENING,
  ORIGINS,
  LIMITS,
  WALLS,
  HARDWARE,
  BATCHING,
  GPU_GRANTS,
  HOSTED,
  SERVERS,
  IMAGES,
  NODES,
  CLUSTER,
  CHANGES,
  PEERS,
  BLOBS,
  KUBERNETES,
  POD_BUILDS,
  RAY,
  SCHEDULES,
  LINE_BATCHES,
  SEATS,
  STORAGE,
  GPUS,
  GPU_MACHINE,
  TRACES,
  MOVING,
  USAGE,
] as const;

/** Every promise Millrace makes to the outside, by id. */
export const REQUIREMENTS = {
  ...START,
  ...RUN,
  ...ASYNC,
  ...STREAMING,
  ...ERRORS,
  ...APPS,
  ...DEPLOY,
  ...CONFIG,
  ...IDENTITY,
  ...CALLERS,
  ...MANAGEMENT,
  ...SHOW,
  ...TOOLS,
  ...WIRE,
  ...DASHBOARD,
  ...HARDENING,
  ...ORIGINS,
  ...LIMITS,
  ...WALLS,
  ...HARDWARE,
  ...BATCHING,
  ...GPU_GRANTS,
  ...HOSTED,
  ...SERVERS,
  ...IMAGES,
  ...NODES,
  ...CLUSTER,
  ...CHANGES,
  ...PEERS,
  ...BLOBS,
  ...KUBERNETES,
  ...POD_BUILDS,
  ...RAY,
  ...QUEUES,
  ...SCHEDULES,
  ...LINE_BATCHES,
  ...SEATS,
  ...STORAGE,
  ...GPUS,
  ...GPU_MACHINE,
  ...TRACES,
  ...MOVING,
  ...USAGE,
};

/** The id of a promise that exists. */
export type RequirementId = keyof typeof REQUIREMENTS;
