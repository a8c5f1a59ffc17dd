import type { Kysely } from "kysely";
import type { ColumnBatch } from "./column-batch.ts";
import type { Schema } from "./schema.ts";

/** What an operation works with: the same on both databases. */
export type Session = {
  readonly db: Kysely<Schema>;
  /** Writes many rows of one table at once; a row whose key is already there is left as it is. */
  insertColumns(table: keyof Schema, batch: ColumnBatch): Promise<void>;
};

/**
 * One named thing the service asks of its storage, run whole where the database is. A write is one
 * transaction; a read is one statement. `pack` runs on the caller's thread, before the arguments travel.
 */
export type Operation<Input, Result, Packed> = {
  readonly mode: "read" | "write";
  readonly pack: (input: Input) => Packed;
  readonly run: (session: Session, packed: Packed) => Promise<Result>;
};

/** An operation whose argument and result types are known only to its caller. */
export type AnyOperation = Operation<never, unknown, never>;

/** Runs operations by name. */
export type Backend = {
  run(name: string, packed: unknown): Promise<unknown>;
  close(): Promise<void>;
};

/** An operation that changes nothing. */
export function read<Input = void, Result = unknown>(
  run: (session: Session, input: Input) => Promise<Result>,
): Operation<Input, Result, Input> {
  return { mode: "read", pack: (input) => input, run };
}

/** An operation that is durable once its promise resolves. */
export function write<Input = void, Result = unknown>(
  run: (session: Session, input: Input) => Promise<Result>,
): Operation<Input, Result, Input> {
  return { mode: "write", pack: (input) => input, run };
}

/** A write whose input is packed first, where sending it as it is would cost the caller's thread too much. */
export function packedWrite<Input, Packed, Result>(
  pack: (input: Input) => Packed,
  run: (session: Session, packed: Packed) => Promise<Result>,
): Operation<Input, Result, Packed> {
  return { mode: "write", pack, run };
}
