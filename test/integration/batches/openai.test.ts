import { writeFileSync } from "node:fs";
import OpenAI, { toFile } from "openai";
import { describe, expect } from "vitest";
import { testDatabases, triedKinds } from "../../support/databases.ts";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { uuidv7 } from "../../support/ids.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { bundleFile } from "../async/site.ts";
import { endedBatch, results } from "./batch-site.ts";

const MAIN = `
import os, time

def run(model, messages=(), input=None):
    text = messages[0]["content"] if messages else input
    if text == "bad":
        raise ValueError("no such word")
    while text == "wait" and not os.path.exists("go"):
        time.sleep(0.02)
    return {"object": "chat.completion", "choices": [{"message": {"role": "assistant", "content": text.upper()}}]}
`;
/** An app that is a server of its own. */
const SERVER = `
import json, os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text = body["messages"][0]["content"]
        status = 400 if text == "bad" else 200
        answer = json.dumps({"path": self.path, "content": text.upper()}, indent=1).encode()
        if text == "long":
            answer = json.dumps(["x" * 1000] * 1000, indent=1).encode()
        kind = "text/plain" if text == "text" else "application/json"
        if text == "text":
            answer = b"no json"
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
`;
const SERVER_TOML = '[runtime.custom]\nentrypoint = "python3 main.py"\n[batches]\nopenai = true\n';
const TOML = "[scaling]\nmax_replicas = 2\n[batches]\nopenai = true\n";
const CHAT = "/v1/chat/completions";

function request(customId: string, content: string): string {
  const body = { model: "words", messages: [{ role: "user", content }] };
  return `${JSON.stringify({ custom_id: customId, method: "POST", url: CHAT, body })}\n`;
}

const databases = testDatabases();

describe.each(triedKinds("postgres"))("OpenAI's Batch API on %s", (kind) => {
  const service = sharedService({ words: { main: MAIN, toml: TOML }, plain: { main: MAIN } }, async () => {
    const { databaseUrl } = await databases.fresh(kind);
    return { ...WITHOUT_WALLS, databaseUrl };
  });

  function clientOf(app = "words", version = ""): OpenAI {
    const apiKey = service().service.owner.token;
    return new OpenAI({ apiKey, baseURL: service().url(app, "run") + version, maxRetries: 0 });
  }

  async function fileOf(client: OpenAI, text: string): Promise<string> {
    const file = await toFile(Buffer.from(text), "requests.jsonl");
    return (await client.files.create({ file, purpose: "batch" })).id;
  }

  async function started(client: OpenAI, text: string, metadata?: Record<string, string>) {
    const input = {
      input_file_id: await fileOf(client, text),
      endpoint: CHAT,
      completion_window: "24h",
    } as const;
    return await client.batches.create({ ...input, ...(metadata && { metadata }) });
  }

  async function ended(client: OpenAI, id: string) {
    const isOver = async () => (await client.batches.retrieve(id)).finalizing_at !== null;
    await until("the batch has ended", isOver);
    return await client.batches.retrieve(id);
  }

  async function linesOf(client: OpenAI, id: string | null | undefined) {
    const text = await (await client.files.content(id ?? "")).text();
    return text.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line)]));
  }

  verifies(
    "openai-batches.run",
    `OpenAI's client runs a batch from a file to its results, on ${kind}`,
    async () => {
      const client = clientOf();
      const made = await started(client, request("a", "one") + request("b", "bad") + request("c", "two"), {
        job: "x",
      });
      expect(made).toMatchObject({
        object: "batch",
        endpoint: CHAT,
        status: "in_progress",
        metadata: { job: "x" },
      });
      const batch = await ended(client, made.id);
      expect(batch).toMatchObject({
        status: "completed",
        errors: null,
        request_counts: { total: 3, completed: 2, failed: 1 },
      });
      const results = await linesOf(client, batch.output_file_id);
      expect(results.map((line) => [line.custom_id, line.response.status_code, line.error])).toEqual([
        ["a", 200, null],
        ["c", 200, null],
      ]);
      expect(results[0].response.body.choices[0].message.content).toBe("ONE");
      const [failed] = await linesOf(client, batch.error_file_id);
      expect(failed).toMatchObject({
        custom_id: "b",
        response: {
          status_code: 500,
          body: { error: { code: "app_error", message: "ValueError: no such word" } },
        },
      });
      const file = await client.files.retrieve(batch.output_file_id ?? "");
      const content = await (await client.files.content(file.id)).text();
      expect(file).toMatchObject({ purpose: "batch_output", bytes: content.length });
    },
  );

  verifies(
    "openai-batches.server",
    `a server app gets each line as a request to its path, on ${kind}`,
    async () => {
      await service().deploy("server", { main: SERVER, toml: SERVER_TOML });
      const apiKey = service().service.owner.token;
      const client = new OpenAI({ apiKey, baseURL: service().url("server", "v1"), maxRetries: 0 });
      const batch = await ended(
        client,
        (
          await started(
            client,
            request("a", "one") + request("b", "bad") + request("c", "long") + request("d", "text"),
          )
        ).id,
      );
      expect(batch).toMatchObject({
        status: "completed",
        request_counts: { total: 4, completed: 3, failed: 1 },
      });
      const [result, long, plain] = await linesOf(client, batch.output_file_id);
      expect(result.response).toMatchObject({ status_code: 200, body: { path: CHAT, content: "ONE" } });
      // Larger than what a record shows, and in many lines.
      expect(long.response.body).toEqual(Array(1000).fill("x".repeat(1000)));
      expect(plain.response).toMatchObject({ status_code: 200, body: "no json" });
      const [failed] = await linesOf(client, batch.error_file_id);
      expect(failed).toMatchObject({
        custom_id: "b",
        response: { status_code: 400, body: { content: "BAD" } },
      });
      const [{ id = "" } = {}] = (
        await service().call("server", "", { method: "GET", functionName: "batches" })
      ).json.items;
      const retried = await service().call("server", "", { functionName: `batches/${id}/retry` });
      expect(retried.json).toMatchObject({ functionName: CHAT, total: 1, retryOf: id });
      const [again] = await results(
        service(),
        "server",
        (await endedBatch(service(), "server", retried.json.id)).id,
      );
      expect(again).toMatchObject({ id: "b", status: "failure", result: { path: CHAT, content: "BAD" } });
      const direct = await service().call(
        "server",
        { messages: [{ content: "x" }] },
        { functionName: "v1/batches/x/y" },
      );
      expect(direct.json).toMatchObject({ content: "X" });
    },
  );

  verifies(
    "openai-batches.files",
    `files are listed, read and deleted, also below v1, on ${kind}`,
    async () => {
      const client = clientOf("words", "/v1");
      const text = request("a", "x".repeat(1_500_000));
      const ids = [await fileOf(client, text), await fileOf(client, request("b", "one"))];
      expect(await (await client.files.content(ids[0]!)).text()).toBe(text);
      expect(await client.files.retrieve(ids[0]!)).toMatchObject({
        bytes: text.length,
        filename: "requests.jsonl",
      });
      const listed: string[] = [];
      for await (const { id } of client.files.list({ limit: 1, purpose: "batch" })) listed.push(id);
      expect(listed.slice(0, 2)).toEqual(ids.toReversed());
      expect(await client.files.delete(ids[0]!)).toEqual({ id: ids[0], object: "file", deleted: true });
      await expect(client.files.retrieve(ids[0]!)).rejects.toMatchObject({ status: 404 });
      await expect(
        client.files.create({ file: await toFile(Buffer.from("x"), "x"), purpose: "assistants" }),
      ).rejects.toMatchObject({ status: 400 });
      await expect(fileOf(clientOf("plain"), text)).rejects.toMatchObject({ status: 415 });
      const sent = async (type: string, body: string) => {
        const options = { suffix: "/files", headers: { "content-type": type } };
        return (await service().call("words", body, options)).status;
      };
      expect(await sent("application/json", "{}")).toBe(415);
      expect(await sent("multipart/form-data", "x")).toBe(415);
      const form = "multipart/form-data; boundary=b";
      const head = '--b\r\ncontent-disposition: form-data; name="file"; filename="f"\r\n\r\n';
      expect(await sent(form, `${head}cut off`)).toBe(400);
      expect(
        await sent(form, '--b\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b--\r\n'),
      ).toBe(400);
      expect(await sent(form, `${head}no purpose\r\n--b--\r\n`)).toBe(400);
      const named = await toFile(Buffer.from(request("a", "one")), "a\0b");
      const kept = await client.files.create({ file: named, purpose: "batch" });
      expect(await client.files.retrieve(kept.id)).toMatchObject({
        filename: expect.stringMatching(/^a.*b$/),
      });
      expect((await client.files.list({ purpose: "\0" })).data).toEqual([]);
      const guest = new OpenAI({ apiKey: "no", baseURL: service().url("words", "run"), maxRetries: 0 });
      await expect(guest.files.list()).rejects.toMatchObject({ status: 401 });
    },
  );

  verifies(
    "openai-batches.invalid",
    `a file with a faulty line fails as a whole, and says why, on ${kind}`,
    async () => {
      const client = clientOf();
      const lines = [
        request("a", "one"),
        "no json\n",
        request("a", "two"),
        request("", "one"),
        request("d", "one").replace(CHAT, "/v1/other"),
        '{"custom_id":"e","method":"POST","url":"/v1/chat/completions","body":[]}\n',
      ];
      const failed = await started(client, lines.join(""));
      expect(failed).toMatchObject({ status: "failed", request_counts: { total: 0 } });
      expect(failed.errors?.data?.map(({ code, line }) => [line, code])).toEqual([
        [2, "invalid_json_line"],
        [3, "duplicate_custom_id"],
        [4, "invalid_custom_id"],
        [5, "mismatched_endpoint"],
        [6, "invalid_body"],
      ]);
      expect((await started(client, "\n")).errors?.data?.[0]?.code).toBe("empty_file");
      expect((await client.batches.retrieve(failed.id)).status).toBe("failed");
      const wrong = { input_file_id: "file-x", endpoint: CHAT, completion_window: "24h" } as const;
      await expect(client.batches.create(wrong)).rejects.toMatchObject({ status: 404 });
      await expect(client.batches.create({ ...wrong, endpoint: "/v1/moderations" })).rejects.toMatchObject({
        status: 400,
      });
    },
  );

  verifies("openai-batches.key", `a batch is made once for a key, on ${kind}`, async () => {
    const client = clientOf();
    const create = async (id: string, key: string) => {
      const asked = { input_file_id: id, endpoint: CHAT, completion_window: "24h" } as const;
      return await client.batches.create(asked, { headers: { "Idempotency-Key": key } }).withResponse();
    };
    for (const [key, text] of [
      ["good", request("a", "one")],
      ["faulty", "no json\n"],
    ] as const) {
      const file = await fileOf(client, text);
      const made = await Promise.all([create(file, key), create(file, key), create(file, key)]);
      expect(new Set(made.map(({ data }) => data.id)).size).toBe(1);
      const again = await create(file, key);
      expect([again.data.id, again.response.headers.get("idempotent-replayed")]).toEqual([
        made[0].data.id,
        "true",
      ]);
      await expect(create(await fileOf(client, text), key)).rejects.toMatchObject({ status: 422 });
      if (key === "good") await ended(client, made[0].data.id);
    }
  });

  verifies("openai-batches.quota", `an account's files count for itself alone, on ${kind}`, async () => {
    const { store } = service().service;
    const { number: appNumber } = service().apps.get("words")!.app;
    const file = { appNumber, user: null, name: "f", purpose: "batch", createdAt: 1, expiresAt: 2 };
    const fill = async (accountId: string, maxBytes: number) => {
      const number = await store.batchFiles.insert({ ...file, accountId, id: uuidv7(Date.now()) });
      const part = { number, appNumber, accountId, part: 0, bytes: Buffer.alloc(10) };
      return await store.batchFiles.append({ ...part, maxBytes });
    };
    expect(await fill("sa-full", 10)).toBe(true);
    expect(await fill("sa-full", 19)).toBe(false);
    expect(await fill("sa-other", 10)).toBe(true);
  });

  verifies("openai-batches.cancel", `a batch is cancelled, and batches are listed, on ${kind}`, async () => {
    const client = clientOf();
    const { id } = await started(client, request("a", "wait") + request("b", "wait"));
    expect((await client.batches.cancel(id)).status).toBe("cancelling");
    const batch = await ended(client, id);
    expect(batch).toMatchObject({ status: "cancelled", request_counts: { total: 2, completed: 0 } });
    expect((await linesOf(client, batch.error_file_id)).map(({ error }) => error?.code)).toEqual([
      "batch_cancelled",
      "batch_cancelled",
    ]);
    await expect(client.batches.cancel(id)).rejects.toMatchObject({ status: 409 });
    const other = await started(client, request("a", "one"));
    const listed: string[] = [];
    for await (const found of client.batches.list({ limit: 1 })) listed.push(found.id);
    expect(listed.slice(0, 2)).toEqual([other.id, id]);
    writeFileSync(bundleFile(service(), "words", "go"), "");
  });
});
