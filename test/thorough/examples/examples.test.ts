import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { sharedService } from "../../support/shared-service.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { until } from "../../support/until.ts";
import type { Answer } from "../../support/service.ts";
import { WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";

const EXAMPLES = path.join(REPOSITORY, "examples");
const names = readdirSync(EXAMPLES);
const service = sharedService({}, { webhookAllow: "127.0.0.0/8" });

const deploy = async (name: string): Promise<void> => {
  await service().service.install(path.join(EXAMPLES, name));
};
/** What a function of an example returns. */
async function result(name: string, fields: object, functionName = "run"): Promise<unknown> {
  const answer: Answer = await service().call(name, fields, { functionName });
  expect([answer.status, answer.text]).toEqual([200, expect.any(String)]);
  return answer.json.result;
}

describe("the examples", () => {
  verifies("examples.work", "each has a README that names its own commands, and a configuration", () => {
    for (const name of names) {
      const text = (file: string) => readFileSync(path.join(EXAMPLES, name, file), "utf8");
      expect(text("README.md")).toMatch(`# ${name}\n`);
      expect(text("README.md")).toContain(`examples/${name}`);
      expect(text(name === "dockerfile" ? "cerebrium.toml" : "millrace.toml")).toContain(`name = "${name}"`);
    }
  });

  verifies("examples.work", "hello greets", async () => {
    await deploy("hello");
    expect(await result("hello", { name: "Ada" })).toEqual({ message: "Hello, Ada!" });
  });

  verifies("examples.work", "counter streams", async () => {
    await deploy("counter");
    const { text } = await service().call("counter", { upper_range: 3, delay: 0 });
    expect(text).toBe("data: Number 0 \n\ndata: Number 1 \n\ndata: Number 2 \n\n");
  });

  verifies("examples.work", "spelling finds the nearest word", async () => {
    await deploy("spelling");
    expect(await result("spelling", { word: "adress", count: 1 })).toMatchObject({ nearest: ["address"] });
  });

  verifies("examples.work", "report tells how far it is, and its end to a webhook", async () => {
    await deploy("report");
    const target = await WebhookTarget.open();
    const suffix = `?async=true&webhookEndpoint=${encodeURIComponent(target.url)}`;
    const { json } = await service().call("report", { rows: 10, seconds_per_row: 0.01 }, { suffix });
    await until("the webhook", () => target.received.length === 1);
    expect(JSON.parse(String(target.received[0]?.body))).toMatchObject({
      result: { run: json.run_id, rows: 10, sum_of_squares: 385 },
    });
    const printed = service().logs.filter(({ runId }) => runId === json.run_id);
    expect(printed.at(-1)?.text).toBe("10 of 10 rows, 100%");
  });

  verifies("examples.work", "cache remembers", async () => {
    await deploy("cache");
    const n = 600_851_475_143;
    expect(await result("cache", { n })).toMatchObject({ factors: [71, 839, 1471, 6857], cached: false });
    expect(await result("cache", { n })).toMatchObject({ cached: true });
    expect(await result("cache", {}, "stats")).toEqual({ entries: 1, hits: 1, misses: 1 });
  });

  verifies("examples.work", "signer signs with a secret, and says what to do without", async () => {
    await deploy("signer");
    const without = await service().call("signer", { message: "pay 10" });
    expect([without.status, without.json.message]).toEqual([
      500,
      expect.stringContaining("millrace secrets set"),
    ]);
    const { baseUrl, owner } = service().service;
    const app = `${owner.projectId}-signer`;
    await fetch(`${baseUrl}/v2/projects/${owner.projectId}/apps/${app}/secrets`, {
      method: "PATCH",
      headers: { authorization: `Bearer ${owner.token}`, "content-type": "application/json" },
      body: JSON.stringify({ SIGNING_KEY: "s3cret" }),
    });
    // A secret is for replicas that start after it was set: the next version's are such.
    await service().deploy("signer", {
      main: readFileSync(path.join(EXAMPLES, "signer", "main.py"), "utf8"),
    });
    expect(await result("signer", { message: "pay 10" })).toMatchObject({
      signature: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
  });

  verifies("examples.work", "notes are there for the next version", async () => {
    await deploy("notes");
    await result("notes", { text: "the gate is open" });
    await service().deploy("notes", { main: readFileSync(path.join(EXAMPLES, "notes", "main.py"), "utf8") });
    expect(await result("notes", {}, "everything")).toMatchObject([{ text: "the gate is open" }]);
  });

  verifies("examples.work", "node-server answers as a body comes, and streams", async () => {
    await deploy("node-server");
    expect((await service().call("node-server", "the gate", { functionName: "shout" })).text).toBe(
      "THE GATE",
    );
    const ticks = await service().call("node-server", "", { functionName: "ticks?count=2", method: "GET" });
    expect(ticks.text).toBe("data: tick 1\n\ndata: tick 2\n\n");
  });

  verifies("examples.work", "the server of dockerfile runs, in its image or without", async () => {
    const from = path.join(EXAMPLES, "dockerfile");
    const read = (file: string): string => readFileSync(path.join(from, file), "utf8");
    for (const [, file = ""] of read("Dockerfile").matchAll(/^COPY (\S+) /gm))
      expect(read(file)).not.toBe("");
    const toml = read("cerebrium.toml").replace(/^dockerfile_path = "\.\/Dockerfile"$/m, "");
    await service().deploy("bare", {
      main: read("server.py"),
      toml: toml
        .replaceAll("[cerebrium.", "[")
        .replace(/^name = .*$/m, "")
        .replace("server.py", "main.py"),
    });
    const { json } = await service().call("bare", "", { functionName: "anything", method: "GET" });
    expect(json).toEqual({ python: expect.stringMatching(/^3\./), image_built_at: null });
  });

  test("there is a test for each of them", () => {
    const folders = ["test/thorough/examples", "test/examples"].map((folder) =>
      path.join(REPOSITORY, folder),
    );
    const files = folders.flatMap((folder) => readdirSync(folder).map((file) => path.join(folder, file)));
    const texts = files.filter((file) => file.endsWith(".test.ts")).map((file) => readFileSync(file, "utf8"));
    for (const name of names) expect(texts.join("")).toMatch(new RegExp(`[(,] ?"${name}"`));
  });
});
