import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { DiskReserve } from "../kit/disk-reserve.ts";
import { refuseOthers } from "./api/mount.ts";
import type { MeasuredParts } from "./measure.ts";

export type HealthParts = Pick<MeasuredParts, "store" | "catalog" | "journal" | "build"> & {
  /** The service is up and not stopping. */
  readonly isReady: () => boolean;
  readonly reserve: Pick<DiskReserve, "isLow" | "isFull">;
  /** Throws unless the request may see what is the operator's affair. */
  readonly authorizeOperator: (request: FastifyRequest) => Promise<void>;
};

/** `/livez`, `/readyz`, and what `/readyz?verbose` tells besides. */
export function healthRoutes(app: FastifyInstance, parts: HealthParts): void {
  app.get("/livez", () => ({ status: "ok" }));
  app.get<{ Querystring: Record<string, unknown> }>("/readyz", async (request, reply) => {
    const isVerbose = Object.hasOwn(request.query, "verbose");
    if (isVerbose) await parts.authorizeOperator(request);
    const problem = await findProblem(parts);
    const status = problem ?? "ok";
    return answer(reply, problem, isVerbose ? { status, ...details(parts) } : { status });
  });
  for (const path of ["/livez", "/readyz"]) refuseOthers(app, path, ["GET"]);
}

function answer(reply: FastifyReply, problem: string | null, body: object): FastifyReply {
  return reply.code(problem ? 503 : 200).send(body);
}

async function findProblem({ isReady, store }: HealthParts): Promise<string | null> {
  if (!isReady()) return "starting or stopping";
  try {
    await store.meta.get("instance_id");
  } catch {
    return "the database does not answer";
  }
  if (store.isSilent("write")) return "the database does not answer to writes";
  return (await store.takesWrites()) ? null : "the database takes no writes";
}

function details({ store, catalog, journal, build, reserve }: HealthParts): object {
  const apps = catalog.all();
  const replicas = apps.flatMap(({ pool }) => [...pool.replicas]);
  return {
    version: build.version,
    uptimeSeconds: Math.floor(process.uptime()),
    store: store.kind,
    silentLanes: (["read", "write"] as const).filter((lane) => store.isSilent(lane)),
    // Without a reserve, as with Postgres, a full disk still takes no upload.
    isDiskLow: reserve.isLow || reserve.isFull,
    recordsWaiting: journal.waiting,
    runsLost: journal.lost,
    apps: apps.length,
    replicas: replicas.length,
  };
}
