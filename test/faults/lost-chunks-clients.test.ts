import { existsSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { Millrace, type MillraceError } from "../../src/client/client.ts";
import { inPython } from "../integration/clients/site.ts";
import { DATABASE_KINDS, testDatabases } from "../support/databases.ts";
import { freePort } from "../support/free-port.ts";
import { holdWrites } from "../support/held-writes.ts";
import { KillableService } from "../support/killable-service.ts";
import { RUNS_MAIN, counted } from "../support/run-apps.ts";
import type { TestService } from "../support/service.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const databases = testDatabases();
/** Readers have had so many when the database takes no more, and all of them when the service is killed. */
const BEFORE = 39;
const ALL = 48;
const MAIN = `${RUNS_MAIN}
def counting(gate):
    yield from gated(gate, ${BEFORE}, ${ALL - BEFORE})
    wait_for("never")
`;
const TOML = "[scaling]\nmax_replicas = 1\nreplica_concurrency = 8\n";

/** Passes everything on, and makes a proper end of an answer that breaks off, as some proxies do. */
async function forgivingProxy(target: string): Promise<string> {
  const server = createServer((request, response) => {
    void (async () => {
      const pieces: Buffer[] = [];
      for await (const piece of request) pieces.push(piece as Buffer);
      const { host: _, connection: __, "accept-encoding": ___, ...headers } = request.headers;
      const answer = await fetch(`${target}${request.url}`, {
        method: request.method ?? "GET",
        headers: { ...(headers as Record<string, string>), "accept-encoding": "identity" },
        ...(request.method === "POST" && { body: Buffer.concat(pieces) }),
      });
      response.writeHead(answer.status, Object.fromEntries(answer.headers));
      response.flushHeaders();
      try {
        for await (const piece of answer.body ?? []) response.write(piece);
      } finally {
        response.end();
      }
    })().catch(() => (response.headersSent ? undefined : response.writeHead(502).end()));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Leaves a file behind when it has had so many texts. */
const PYTHON = `
texts = []
try:
    for text in millrace.stream("app", {"gate": "gate"}, function="counting", reattach_tries=1000):
        texts.append(text)
        if len(texts) in (${BEFORE}, ${ALL}): open(os.environ["SIGN"] + str(len(texts)), "w").close()
    show([texts, None])
except MillraceError as error:
    show([texts, error.code])`;

for (const kind of DATABASE_KINDS) {
  verifies(
    "client.truncated",
    `neither client takes a stream for whole that a kill -9 cut, behind a proxy that ends it properly (${kind})`,
    async () => {
      const database = await databases.fresh(kind);
      const env = { MILLRACE_API_PORT: String(await freePort()) };
      const service = await KillableService.deploy(database, { main: MAIN, toml: TOML }, env);
      await service.start();
      const url = await forgivingProxy(new URL(service.appUrl).origin);
      const { projectId: project, token, storageDir } = service;
      const client = new Millrace({ url, project, token, backoffMs: 20 });
      const texts: string[] = [];
      const typescript = (async () => {
        const options = { function: "counting", reattachTries: 1_000 };
        for await (const text of client.stream("app", { gate: "gate" }, options)) texts.push(text);
        return null;
      })().catch((error: MillraceError) => error.code);
      const sign = path.join(database.dataDir, "had-");
      const python = inPython(
        { service: { owner: { projectId: project, token } } } as unknown as TestService,
        `os.environ["SIGN"] = ${JSON.stringify(sign)}${PYTHON}`,
        url,
      );
      const bothHave = async (count: number): Promise<void> =>
        await until(`both have had ${count}`, () => texts.length === count && existsSync(`${sign}${count}`));
      await bothHave(BEFORE);
      const letWrite = await holdWrites(database);
      writeFileSync(path.join(storageDir, "app.gate"), "");
      await bothHave(ALL);
      await service.kill();
      await letWrite();
      await service.start();
      expect([texts, await typescript]).toEqual([counted(ALL), "interrupted"]);
      expect(await python).toEqual([counted(ALL), "interrupted"]);
      await service.stop();
    },
  );
}
