import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import type { TestProject } from "vitest/node";
import { type PostgresServer, startPostgres } from "./postgres-server.ts";

declare module "vitest" {
  // oxlint-disable-next-line consistent-type-definitions
  interface ProvidedContext {
    /** Whoever connects is told the address of the one Postgres of this run, as JSON. */
    readonly postgresSocket: string;
  }
}

/**
 * One Postgres for all test files of a run, started when the first of them asks: to make one takes two seconds of
 * a processor. Vitest calls this before the first test, and what it returns after the last.
 */
export async function setup({ provide }: TestProject): Promise<() => Promise<void>> {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-tests-"));
  let starting: Promise<PostgresServer> | null = null;
  const server = createServer((socket) => {
    socket.on("error", () => {}); // A test that does not wait for the answer.
    starting ??= startPostgres();
    starting.then(
      ({ url }) => socket.end(JSON.stringify({ url })),
      (error: unknown) => socket.end(JSON.stringify({ failure: String(error) })),
    );
  });
  server.listen(path.join(folder, "postgres"));
  await once(server, "listening");
  provide("postgresSocket", path.join(folder, "postgres"));
  return async () => {
    server.close();
    await starting?.then(
      (postgres) => postgres.stop(),
      () => {},
    );
    rmSync(folder, { recursive: true, force: true });
  };
}
