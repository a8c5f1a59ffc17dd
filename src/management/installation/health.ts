import type { FastifyInstance, FastifyRequest } from "fastify";
import { LIMITS, describeEnforced } from "../../host/limits/limits.ts";
import type { ManagementParts } from "../parts.ts";

type HealthParts = ManagementParts & {
  readonly isReady: () => boolean;
  /** Throws unless the request may see what is only for the operator. */
  readonly authorizeOperator: (request: FastifyRequest) => Promise<void>;
};

/** Something that the service cannot do now; `isAll`: it can do nothing, and calls should go to another node. */
type Limit = { readonly reason: string; readonly detail: string; readonly isAll: boolean };

/**
 * Serves `/livez`, `/readyz` and `/readyz?verbose`. A service that still answers calls is ready, so that load balancers
 * keep sending them; the answer lists what it refuses.
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
    return reply.code(problem ? 503 : 200).send(isVerbose ? { ...body, ...details(parts) } : body);
  });
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

/** The reasons are public, the details only for the operator. */
async function findLimits({ reserve, interpreter, catalog }: ManagementParts): Promise<Limit[]> {
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

function details(parts: ManagementParts): object {
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
    // With Postgres there is no reserve, but a full disk still refuses uploads.
    isDiskLow: reserve.isLow || reserve.isFull,
    recordsWaiting: journal.waiting,
    runsLost: journal.lost,
    network,
    apps: apps.length,
    replicas: replicas.length,
    appLimits: Object.fromEntries(LIMITS.map((name) => [name, describeEnforced(enforcement[name])])),
  };
}
