import { once } from "node:events";
import { type ClientRequest, type IncomingMessage, request as httpRequest } from "node:http";
import { text } from "node:stream/consumers";
import { describe, expect } from "vitest";
import { testDatabases, triedKinds } from "../../support/databases.ts";
import { callAccount } from "../../support/call-tokens.ts";
import { type TestService, WITHOUT_WALLS } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { accepted, endedBatch, MAIN, numbers, ofBatch, record, results, upload } from "./batch-site.ts";

const databases = testDatabases();
const TOML = "[scaling]\nmax_replicas = 2\n[limits]\nmax_body = 100000\n";
/** More than one block. */
const MANY = 2_500;

/** An upload by hand, whose bytes go out as the test says. */
function open(on: TestService, app: string, headers: Record<string, string> = {}): ClientRequest {
  const opened = httpRequest(`${on.url(app)}/batches`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${on.service.owner.token}`,
      "content-type": "application/x-ndjson",
      ...headers,
    },
  });
  opened.on("error", () => undefined);
  return opened;
}

async function answerOf(opened: ClientRequest) {
  const [response] = (await once(opened, "response")) as [IncomingMessage];
  return { status: response.statusCode, json: JSON.parse(await text(response)) };
}

describe.each(triedKinds("postgres"))("uploads of batches on %s", (kind) => {
  const service = sharedService({}, async () => {
    const { databaseUrl } = await databases.fresh(kind);
    return { ...WITHOUT_WALLS, databaseUrl, bodyTimeout: "2s" };
  });
  const list = async (app: string) =>
    (await ofBatch(service(), app)).json.items as { id: string; status: string; total: number }[];

  verifies(
    ["batches.resume", "batches.uploading"],
    `an upload with a key goes on after what is stored, on ${kind}`,
    async () => {
      const app = await service().own({ main: MAIN, toml: TOML });
      const key = { "idempotency-key": "again" };
      const first = open(service(), app, key);
      first.write(numbers(2_100));
      await until("lines are stored", async () => ((await list(app))[0]?.total ?? 0) >= 2_000);
      const [before] = await list(app);
      expect(before!.status).toBe("uploading");
      first.destroy();
      const other = await upload(service(), app, numbers(MANY, 1), { headers: key });
      expect([other.status, other.json.code]).toEqual([422, "idempotency_mismatch"]);
      const short = await upload(service(), app, numbers(1_000), { headers: key });
      expect([short.status, short.json.code]).toEqual([422, "idempotency_mismatch"]);
      const again = await upload(service(), app, numbers(MANY), { headers: key });
      expect([again.status, again.json.id, again.json.total]).toEqual([202, before!.id, MANY]);
      expect(again.headers.get("x-request-id")).toBe(before!.id);
      const replay = await upload(service(), app, numbers(MANY), { headers: key });
      expect([replay.status, replay.json.id]).toEqual([202, before!.id]);
      expect(replay.headers.get("idempotent-replayed")).toBe("true");
      const different = await upload(service(), app, numbers(1), { headers: key, functionName: "hold" });
      expect(different.status).toBe(422);
      expect(await list(app)).toHaveLength(1);
      expect(await endedBatch(service(), app, before!.id)).toMatchObject({ total: MANY, succeeded: MANY });
      const lines = await results(service(), app, before!.id);
      expect(lines.map((line) => line.result)).toEqual(Array.from({ length: MANY }, (_, n) => 2 * n));
    },
  );

  verifies(
    "batches.resume",
    `an upload to an app that accepts small bodies only goes on after what is stored, on ${kind}`,
    async () => {
      const app = await service().own({ main: MAIN, toml: TOML });
      const headers = { "idempotency-key": "small" };
      // A block of them is larger than several lines may be.
      const lines = (count: number, char = "p") =>
        Array.from({ length: count }, (_, n) => `{"input":{"n":"${char.repeat(2_000)}${n}"}}\n`).join("");
      const first = open(service(), app, headers);
      first.write(lines(700));
      await until("lines are stored", async () => ((await list(app))[0]?.total ?? 0) > 500);
      first.destroy();
      const other = await upload(service(), app, lines(800, "q"), { headers });
      expect([other.status, other.json.code]).toEqual([422, "idempotency_mismatch"]);
      const again = await upload(service(), app, lines(800), { headers });
      expect([again.status, again.json.total]).toEqual([202, 800]);
    },
  );

  verifies(
    "batches.abandoned",
    `without a key an upload that ends too early never runs, on ${kind}`,
    async () => {
      const app = await service().own({ main: MAIN, toml: TOML });
      const opened = open(service(), app);
      opened.write(numbers(2_000));
      await until("lines are stored", async () => ((await list(app))[0]?.total ?? 0) > 0);
      opened.destroy();
      await until("the batch is over", async () => (await list(app))[0]?.status === "cancelled");
      const [{ id } = expect.fail()] = await list(app);
      expect(await record(service(), app, id)).toMatchObject({ total: 0, uploadedAt: null });
      expect(await results(service(), app, id)).toEqual([]);
    },
  );

  verifies("batches.silent", `an upload may take long, but not be silent, on ${kind}`, async () => {
    const app = await service().own({ main: MAIN, toml: TOML });
    const stored = new Set<number>();
    const slow = open(service(), app);
    const answered = answerOf(slow);
    let count = 0;
    // Lines are stored four times in a second at most: this takes more time than any other body may.
    await until("lines were stored often", async () => {
      slow.write(numbers(1, count++));
      stored.add((await list(app))[0]?.total ?? 0);
      return stored.size > 14;
    });
    const silent = await answered;
    expect([silent.status, silent.json.code]).toEqual([408, "request_timeout"]);
  });

  verifies("batches.long-lines", `a line that is too long is an error of its own, on ${kind}`, async () => {
    const app = await service().own({ main: MAIN, toml: TOML });
    const long = (bytes: number) => `{"id":"long","input":{"n":"${"x".repeat(bytes)}"}}`;
    const bodies = [numbers(1).trim(), long(10_000_000), long(90_000), numbers(1, 1)];
    const id = await accepted(service(), app, bodies.join("\n"));
    await endedBatch(service(), app, id);
    const lines = await results(service(), app, id);
    expect(lines.map(({ error, result }) => error?.code ?? result)).toEqual([
      0,
      "body_too_large",
      "x".repeat(180_000),
      2,
    ]);
  });

  verifies("batches.takeover", `the last connection with a key goes on, on ${kind}`, async () => {
    const app = await service().own({ main: MAIN, toml: TOML });
    const key = { "idempotency-key": "two" };
    const first = open(service(), app, key);
    first.write(numbers(2_000));
    await until("lines are stored", async () => ((await list(app))[0]?.total ?? 0) > 0);
    const second = await upload(service(), app, numbers(MANY), { headers: key });
    expect(second.status).toBe(202);
    const lost = answerOf(first);
    first.end(numbers(2_000, 2_000));
    expect((await lost).json.code).toBe("upload_replaced");
    expect(await record(service(), app, second.json.id)).toMatchObject({ total: MANY });
  });

  verifies("batches.quota", `an account has a few uploads open at once, on ${kind}`, async () => {
    const app = await service().own({ main: MAIN, toml: TOML });
    const opened = Array.from({ length: 8 }, () => open(service(), app));
    for (const one of opened) one.write(numbers(2_000));
    await until("all are open", async () => (await list(app)).length === 8);
    const ninth = await upload(service(), app, numbers(1));
    expect([ninth.status, ninth.json.code]).toEqual([429, "too_many_in_flight"]);
    for (const one of opened) one.destroy();
    await until("none is open", async () => (await upload(service(), app, numbers(1))).status === 202);
  });

  verifies(
    "batches.own",
    `a token that sees only its own runs sees only its own batches, on ${kind}`,
    async () => {
      const app = await service().own({ main: MAIN, toml: TOML });
      const [one, other] = await Promise.all([
        callAccount(service(), { apps: [app] }),
        callAccount(service(), { apps: [app] }),
      ]);
      const id = await accepted(service(), app, numbers(1), { token: one.token });
      const seenBy = async (token: string, path = `/${id}`) => await ofBatch(service(), app, path, { token });
      expect((await seenBy(one.token)).status).toBe(200);
      expect((await seenBy(other.token)).status).toBe(404);
      expect((await seenBy(other.token, `/${id}/results`)).status).toBe(404);
      expect((await seenBy(one.token, "")).json.items).toHaveLength(1);
      expect((await seenBy(other.token, "")).json.items).toEqual([]);
      expect((await seenBy(service().service.owner.token)).status).toBe(200);
      const limited = await callAccount(service(), { apps: [app], functions: ["hold"] });
      expect((await upload(service(), app, numbers(1), { token: limited.token })).status).toBe(403);
    },
  );
});
