import { z } from "zod";
import type { SeatOrder } from "../agent/seat-place.ts";
import { type Moves, orderedReader, parseMessage } from "../protocol.ts";
import type { Settings } from "../../config/setting-keys.ts";
import type { Workload } from "../engine.ts";

/** The messages that are legal in each phase of a connection. Each connection reports all seats again. */
const MOVES: Moves<"greeting" | "serving", string> = {
  greeting: { hello: "serving", beat: "greeting" },
  serving: { beat: "serving", waiting: "serving", begun: "serving", ended: "serving" },
};

const MAX_EXIT_CODE = 255;
const seat = z.string().regex(/^s-[a-z0-9]{12}$/);
const why = z.string().max(500);

const MESSAGE = z.union([
  z.strictObject({ beat: z.strictObject({}) }),
  z.strictObject({ hello: z.strictObject({ ray: z.string().max(100), python: z.string().max(32) }) }),
  z.strictObject({ waiting: z.strictObject({ seat, why }) }),
  z.strictObject({ begun: z.strictObject({ seat }) }),
  z.strictObject({
    ended: z
      .strictObject({
        seat,
        code: z.int().min(0).max(MAX_EXIT_CODE).nullable(),
        why: why.nullable(),
        is_out_of_memory: z.boolean(),
      })
      .transform(({ is_out_of_memory, ...rest }) => ({ ...rest, isOutOfMemory: is_out_of_memory })),
  }),
]);

export type SupervisorMessage = z.infer<typeof MESSAGE>;

/** How an actor ended: by its agent's exit code, or why without one. */
export type SeatEnd = Extract<SupervisorMessage, { readonly ended: unknown }>["ended"];

/** Reads the lines of one connection, and checks their order. */
export function supervisorReader(): (line: Buffer) => SupervisorMessage {
  return orderedReader((line) => parseMessage(MESSAGE, line, "supervisor"), MOVES, "greeting");
}

/** What an actor reserves, by Ray's names: cores, bytes, GPUs, and custom resources. */
export type Needs = Readonly<Record<string, number>>;

/** What an actor is started with. */
export type Begin = {
  readonly seat: string;
  readonly order: SeatOrder;
  readonly needs: Needs;
  /** Models of GPU, by Ray's names: it needs the first that the cluster has. Absent if every GPU will do. */
  readonly accelerators?: readonly string[];
};

/** A message of the service; `keep` comes first. */
export type SupervisorOrder =
  | { readonly keep: { readonly seats: readonly string[] } }
  | { readonly find: { readonly seat: string; readonly namespace: string } }
  | { readonly begin: Begin }
  | { readonly end: { readonly seat: string } }
  | { readonly forget: { readonly seat: string } }
  | { readonly leave: Record<string, never> };

/** The cores reserved per share of an app without a number of cores. */
const UNNAMED_SHARE = 0.25;

/** What an actor reserves for all its replicas: Ray places by that, and does not enforce it. */
export function needsOf(
  { limits, gpus }: Pick<Workload, "limits" | "gpus">,
  { replicasPerSeat, rayResources }: Pick<Settings, "replicasPerSeat" | "rayResources">,
): Needs {
  const { cpus, cpuShare, memoryBytes } = limits;
  const each: Needs = {
    CPU: cpus ?? cpuShare * UNNAMED_SHARE,
    ...(memoryBytes !== null && { memory: memoryBytes }),
    ...(gpus && { GPU: gpus.count }),
    ...rayResources,
  };
  return Object.fromEntries(Object.entries(each).map(([name, amount]) => [name, amount * replicasPerSeat]));
}
