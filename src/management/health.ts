import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Isolated } from "../host/walls/require-walls.ts";
import { LIMITS, describeEnforced } from "../host/limits/limits.ts";
import type { Enforcement } from "../host/limits/limits.ts";
import type { DiskReserve } from "../kit/disk-reserve.ts";
import type { ExecutableCheck } from "../kit/files.ts";
import type { Owners } from "../nodes/owners.ts";
import { refuseOthers } from "./api/mount.ts";
import type { StandingWalls } from "../host/walls/walls.ts";
import type { MeasuredParts } from "./measure.ts";

export type HealthParts = Pick<MeasuredParts, "store" | "catalog" | "journal" | "build"> & {
  /** The service is up and not stopping. */
  readonly isReady: () => boolean;
  /** Of a service that shares its database: which apps are its own. */
  readonly owners: Pick<Owners, "isSure"> | null;
  readonly reserve: Pick<DiskReserve, "isLow" | "isFull" | "shortage">;
  /** The Python that apps start with. */
  readonly interpreter: Pick<ExecutableCheck, "path" | "isMissing">;
  /** What apps live behind. */
  readonly isolated: Isolated;
  /** The weakest walls that a seat elsewhere has raised around an app; null for none. */
  readonly seatWalls: () => StandingWalls | null;
  /** What apps are held to, and by what. */
  readonly enforcement: Enforcement;
  /** What of an app's `network` is in force. */
  readonly network: Readonly<Record<string, string>>;
  /** Throws unless the request may see what only the operator may know. */
  readonly authorizeOperator: (request: FastifyRequest) => Promise<void>;
};

/** What the service cannot do at the moment; `isAll` when it can do nothing, and calls should go elsewhere. */
type Limit = { readonly reason: string; readonly detail: string; readonly isAll: boolean };

/**
 * `/livez`, `/readyz`, and what `/readyz?verbose` tells besides. A service that still answers calls is ready, so that
 * no balancer takes it from its callers; what it refuses meanwhile is in the answer.
 */
export function healthRoutes(app: FastifyInstance, parts: HealthParts): void {
  app.get("/livez", () => ({ status: "ok" }));
  app.get<{ Querystring: Record<string, unknown> }>("/readyz", async (request, reply) => {
    const isVerbose = Object.hasOwn(request.query, "verbose");
    if (isVerbose) await parts.authorizeOperator(request);
    const limits = await findLimits(parts);
    const problem = (await findProblem(parts)) ?? limits.find(({ isAll }) => isAll)?.reason ?? null;
    const status = problem ?? (limits.length === 0 ? "ok" : "limited");
    const told = limits.map(({ reason, detail }) => (isVerbose ? detail : reason));
    const body = { status, ...(limits.length > 0 && { limits: told }) };
    return answer(reply, problem, isVerbose ? { ...body, ...details(parts) } : body);
  });
  for (const path of ["/livez", "/readyz"]) refuseOthers(app, path, ["GET"]);
}

function answer(reply: FastifyReply, problem: string | null, body: object): FastifyReply {
  return reply.code(problem ? 503 : 200).send(body);
}

async function findProblem({ isReady, store, owners }: HealthParts): Promise<string | null> {
  if (!isReady()) return "starting or stopping";
  const fault = store.file()?.fault;
  if (fault) return fault.message;
  try {
    await store.meta.get("instance_id");
  } catch {
    return "the database does not answer";
  }
  if (store.isSilent("write")) return "the database does not answer writes";
  if (!(await store.takesWrites())) return "the database takes no writes";
  return owners && !owners.isSure ? "it is finding out which apps are its own" : null;
}

/** Whoever asks learns what is refused; the figures are the operator's affair. */
async function findLimits({ reserve, interpreter, catalog }: HealthParts): Promise<Limit[]> {
  const limits: Limit[] = [];
  const { shortage } = reserve;
  if (shortage !== null) {
    const reason = "the disk is low: async runs, uploads and deploys are refused";
    limits.push({ reason, detail: shortage, isAll: false });
  }
  if (await interpreter.isMissing()) {
    const hasReady = catalog
      .all()
      .some(({ pool }) => [...pool.replicas].some(({ state }) => state === "ready"));
    const detail = `${interpreter.path} is missing: no app can start. Install that Python again, or set MILLRACE_PYTHON and restart.`;
    limits.push({ reason: "no app can start: the Python interpreter is missing", detail, isAll: !hasReady });
  }
  return limits;
}

function details(parts: HealthParts): object {
  const { store, catalog, journal, build, reserve, enforcement, network, isolated } = parts;
  const fault = store.file()?.fault;
  const apps = catalog.all();
  const replicas = apps.flatMap(({ pool }) => [...pool.replicas]);
  return {
    version: build.version,
    uptimeSeconds: Math.floor(process.uptime()),
    store: store.kind,
    ...(fault && { storageFault: fault.detail }),
    isolation: parts.seatWalls()?.level ?? isolated.level ?? "none",
    ...(isolated.lack !== null && { withoutWalls: isolated.lack }),
    silentLanes: (["read", "write"] as const).filter((lane) => store.isSilent(lane)),
    // Without a reserve, as with Postgres, a full disk still takes no upload.
    isDiskLow: reserve.isLow || reserve.isFull,
    recordsWaiting: journal.waiting,
    runsLost: journal.lost,
    network,
    apps: apps.length,
    replicas: replicas.length,
    appLimits: Object.fromEntries(LIMITS.map((name) => [name, describeEnforced(enforcement[name])])),
  };
}
