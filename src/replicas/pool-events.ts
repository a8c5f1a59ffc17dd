import type { FunctionSignature } from "../model/app.ts";
import type { Exit } from "./engine.ts";
import type { LogLine } from "./log-lines.ts";

/** A line some replica of the pool printed. */
export type PoolLogLine = LogLine & { readonly replicaId: string };

/** What the owner of a pool learns from it. */
export type PoolEvents = {
  onLog(line: PoolLogLine): void;
  /** The first replica has said what `main.py` offers. */
  onFunctions(functions: readonly FunctionSignature[]): void;
  onReplicaGone(replicaId: string, exit: Exit): void;
};
