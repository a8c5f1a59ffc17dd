import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { beforeAll, expect, onTestFinished } from "vitest";
import { storageFolder } from "../../../src/host/data-folders.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { deployFolder, MODEL } from "./site.ts";

const service = sharedService();
beforeAll(async () => {
  await deployFolder(service(), "model", MODEL);
});

const PNG = Buffer.from("not really a picture");
const DATA_URL = `data:image/png;base64,${PNG.toString("base64")}`;

verifies(
  "cog.runs",
  "a folder with cog.yaml and predict.py is set up once and answers as it is",
  async () => {
    const { status, json } = await service().call("model", { prompt: "a cat", seed: 3, token: "hush" });
    expect([status, json.result]).toEqual([
      200,
      { text: "a cat 20 7.5 png 3 1 hush", image: null, sizes: [] },
    ]);
    const again = await service().call("model", { prompt: "a dog", scale: 1, kind: "jpg" });
    expect(again.json.result.text).toBe("a dog 20 1.0 jpg None 1");
    await until("the secret is printed", () =>
      service().logs.some(({ text }) => text === "token **********"),
    );
  },
);

verifies("cog.inputs", "what an Input says is enforced with 422, naming each input", async () => {
  const wrong = { prompt: "A", steps: 0, scale: "1", kind: "gif", image: "file:///etc/passwd", seed: -1 };
  const { status, json } = await service().call("model", wrong);
  expect([status, json.code]).toEqual([422, "invalid_arguments"]);
  expect(json.details).toEqual([
    { field: "prompt", problem: "invalid", message: "must have at least 2 characters" },
    { field: "steps", problem: "invalid", message: "must be at least 1" },
    { field: "scale", problem: "invalid", message: "must be a number" },
    { field: "kind", problem: "invalid", message: 'must be one of "png", "jpg"' },
    {
      field: "image",
      problem: "invalid",
      message: "must be the URL of a file, beginning with https://, http:// or data:",
    },
    { field: "seed", problem: "invalid", message: "must be at least 0" },
  ]);
  expect(json.message).toContain("steps must be at least 1; scale must be a number");

  const one = async (body: object): Promise<string> => {
    const answer = await service().call("model", { prompt: "ok", ...body });
    return `${answer.status} ${answer.json.message ?? "fine"}`;
  };
  expect(await one({ steps: 51 })).toBe("422 steps must be at most 50");
  expect(await one({ steps: 50 })).toBe("200 fine");
  expect(await one({ steps: 1.5 })).toBe("422 steps must be an integer");
  expect(await one({ steps: true })).toBe("422 steps must be an integer");
  expect(await one({ prompt: "a".repeat(21) })).toBe("422 prompt must have at most 20 characters");
  expect(await one({ prompt: "ok 1" })).toBe("422 prompt must match the regular expression ^[a-z ]+$");
  expect(await one({ more: ["x"] })).toMatch(/^422 more has an item, number 1, that must be the URL/);
  expect(await one({ nothing: 1 })).toBe("422 nothing is unknown");
  const missing = await service().call("model", {});
  expect([missing.status, missing.json.details]).toEqual([422, [{ field: "prompt", problem: "missing" }]]);

  // An async run is accepted by the names of its arguments, and ends with the same error.
  const accepted = await service().call("model", { prompt: "x" }, { suffix: "?async=true" });
  const ended = await service().ofRun("model", accepted.json.run_id, "result", {
    headers: { prefer: "wait=60" },
  });
  expect([accepted.status, ended.status, ended.json.code]).toEqual([202, 422, "invalid_arguments"]);
});

verifies(
  "cog.openapi",
  "the bounds, choices and descriptions are in the app's OpenAPI document",
  async () => {
    const { json } = await service().call("model", "", { functionName: "openapi.json", method: "GET" });
    const { post } = json.paths["/run"];
    expect(post.summary).toBe("Draws a picture.");
    const { properties, required } = post.requestBody.content["application/json"].schema;
    expect(required).toEqual(["prompt"]);
    expect(properties).toMatchObject({
      prompt: {
        type: "string",
        description: "What to draw",
        minLength: 2,
        maxLength: 20,
        pattern: "^[a-z ]+$",
      },
      steps: { type: "integer", minimum: 1, maximum: 50, default: 20 },
      kind: { type: "string", enum: ["png", "jpg"], default: "png" },
      image: { anyOf: [{ type: "string", format: "uri" }, { type: "null" }] },
    });
  },
);

verifies(
  "cog.files-in",
  "files come in by data URLs and from servers, bounded and with their names",
  async () => {
    const server = createServer((request, response) => {
      if (request.url === "/picture.png") response.end(PNG);
      else if (request.url === "/away") response.writeHead(302, { location: "ftp://127.0.0.1/x" }).end();
      else if (request.url === "/short") {
        response.writeHead(200, { "content-length": "100" });
        response.write("only a part");
        setImmediate(() => response.destroy());
      } else response.writeHead(404).end();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const body = { prompt: "ok", image: `${base}/picture.png`, more: [DATA_URL, `${base}/picture.png`] };
    const { json } = await service().call("model", body);
    expect(json.result.sizes).toEqual([PNG.length, PNG.length]);
    expect(json.result.image).toBe(`data:image/png;base64,${Buffer.concat([PNG, PNG]).toString("base64")}`);
    const refused = async (image: string): Promise<string> =>
      (await service().call("model", { prompt: "ok", image })).json.message;
    expect(await refused(`${base}/none`)).toBe("image cannot be fetched: the server answered 404");
    expect(await refused(`${base}/away`)).toBe(
      "image must be the URL of a file, and redirects to what is none",
    );
    expect(await refused(`${base}/short`)).toMatch(/^image cannot be fetched: /);
    expect(await refused("data:image/png;base64,%%%")).toBe(
      "image must be a data URL whose content is base64",
    );
    expect(await refused("data:nothing")).toMatch(/^image must be a whole data URL/);
  },
);

verifies(
  "cog.files-out",
  "a file comes back as a data URL, one too large for that in the storage",
  async () => {
    const small = await service().call("model", { prompt: "ok", lines: 2 });
    expect(small.json.result.image).toMatch(/^data:text\/plain;base64,eHh4/);
    // A file of the app stays.
    for (const _ of [1, 2]) {
      const { json } = await service().call("model", { prompt: "ok", example: true });
      expect(json.result.image).toBe("data:text/plain;base64,YW4gZXhhbXBsZQ==");
    }
    const lines = 400_000;
    const large = await service().call("model", { prompt: "ok", lines });
    const { run_id: runId, result } = large.json;
    expect(result.image).toBe(`/persistent-storage/cog/${runId}/long.txt`);
    const { dataDir } = service().settings;
    const storage = storageFolder(service().service.owner.projectId, dataDir);
    const text = await readFile(path.join(storage, "cog", runId, "long.txt"), "utf8");
    expect(text.length).toBe(80 * lines);
  },
);
