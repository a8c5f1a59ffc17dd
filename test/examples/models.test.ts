import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { once } from "node:events";
import { tmpdir } from "node:os";
import path from "node:path";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, type TestContext, vi } from "vitest";
import { WebSocket } from "ws";
import { ReaderHome } from "../support/example-folders.ts";
import { sharedService } from "../support/shared-service.ts";
import { verifies } from "../verifies.ts";
import { makeWeights, modelPython, skipWithoutModels } from "./model-python.ts";
import { wave } from "./wave.ts";

/** What each example loads if nobody says otherwise. A folder of that name in the bundle is found first. */
const MODELS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  llm: { "Qwen/Qwen3-4B-Instruct-2507": "llm" },
  embeddings: { "BAAI/bge-small-en-v1.5": "embeddings", "BAAI/bge-m3": "embeddings" },
  whisper: { "openai/whisper-large-v3-turbo": "whisper" },
  diffusion: { "stabilityai/stable-diffusion-xl-base-1.0": "diffusion" },
  voice: {
    "openai/whisper-base": "whisper",
    "Qwen/Qwen2.5-1.5B-Instruct": "llm",
    "facebook/mms-tts-eng": "voice",
  },
};

const service = sharedService({}, modelPython === null ? {} : { python: modelPython });
const home = new ReaderHome(mkdtempSync(path.join(tmpdir(), "millrace-models-")));

beforeAll(() => {
  // Whatever is not in the bundle is an error, not a download.
  vi.stubEnv("HF_HUB_OFFLINE", "1");
});
afterAll(() => {
  vi.unstubAllEnvs();
  rmSync(home.folder, { recursive: true, force: true });
});

/** Does what the README says, with weights made here; gives what its commands printed after the deploy. */
async function readme(
  name: string,
  context: TestContext,
  change?: (command: string) => string,
): Promise<string[]> {
  skipWithoutModels(context);
  const folder = home.withoutPackages(name);
  const kinds = Object.entries(MODELS[name] ?? {});
  makeWeights(Object.fromEntries(kinds.map(([model, kind]) => [path.join(folder, model), kind])));
  const [deployed, ...printed] = await home.tryReadme(name, service(), change);
  expect(deployed).toContain(`${name} is deployed`);
  return printed;
}

/** OpenAI's own client, for an address below an app. */
function openai(below: string): OpenAI {
  const { apiUrl, owner } = service().service;
  return new OpenAI({
    baseURL: `${apiUrl}/v4/${owner.projectId}/${below}`,
    apiKey: owner.token,
    maxRetries: 0,
  });
}

describe("the examples with models", () => {
  verifies(
    ["examples.models", "docs.blocks"],
    "llm streams to each of many callers what it would to one alone",
    async (context) => {
      const [said = ""] = await readme("llm", context);
      expect(said).toMatch(/"finish_reason":"(?:length|stop)"\}\]\}\n(?:data: )?\[DONE\]/);
      const ask = async (place: number): Promise<string> => {
        const stream = await openai("llm/chat").chat.completions.create({
          model: "tiny",
          messages: [{ role: "user", content: "water ".repeat(1 + (place % 5)) + String(place) }],
          max_tokens: 5 + 7 * (place % 4),
          temperature: 0,
          stream: true,
        });
        let text = "";
        let reason: string | null = null;
        for await (const { choices } of stream) {
          text += choices[0]?.delta.content ?? "";
          reason = choices[0]?.finish_reason ?? null;
        }
        return `${reason}: ${text}`;
      };
      const alone: string[] = [];
      for (let place = 0; place < 6; place += 1) alone.push(await ask(place));
      const places = Array.from({ length: 24 }, (_, place) => place % 6);
      const answers = Promise.all(places.map(ask));
      const messages = [{ role: "user", content: "water" }];
      const misfit = { messages, stream: true, temperature: "hot" };
      expect((await service().call("llm", misfit, { functionName: "chat" })).status).toBe(500);
      expect(await answers).toEqual(places.map((place) => alone[place]));
      const whole = await service().call("llm", { messages: [] }, { functionName: "chat" });
      expect([whole.status, whole.json.message]).toEqual([
        500,
        expect.stringContaining('send "stream": true'),
      ]);
      const none = { messages: [{ role: "user", content: "x" }], stream: true, max_tokens: 0 };
      const empty = await service().call("llm", none, { functionName: "chat" });
      expect([empty.status, empty.json.message]).toEqual([
        500,
        expect.stringContaining("max_tokens must be from 1 to the rest of 4096"),
      ]);
    },
  );

  verifies(
    ["examples.models", "docs.blocks"],
    "embeddings gives many callers at once what it would give one alone",
    async (context) => {
      const printed = await readme("embeddings", context);
      const dimensions = printed.map((text) =>
        (JSON.parse(text) as Embeddings).data.map((each) => each.embedding.length),
      );
      expect(dimensions).toEqual([[32], [32, 32]]);
      const models = Object.keys(MODELS["embeddings"] ?? {});
      const ask = async (place: number): Promise<number[][]> => {
        const model = models[place % 2] ?? "";
        const input = place % 3 === 0 ? `text ${place}` : [`text ${place}`, "the same"];
        const { data } = await openai("embeddings/embed").embeddings.create({ model, input });
        return data.map(({ embedding }) => Array.from(embedding));
      };
      const alone: number[][][] = [];
      for (let place = 0; place < 6; place += 1) alone.push(await ask(place));
      const places = Array.from({ length: 60 }, (_, place) => place % 6);
      const together = await Promise.all(places.map(ask));
      for (const [at, place] of places.entries()) expectClose(together[at], alone[place]);
      const wrong = await service().call(
        "embeddings",
        { input: "x", model: "other" },
        { functionName: "embed" },
      );
      expect([wrong.status, wrong.json.message]).toEqual([
        500,
        expect.stringContaining("there is no model other"),
      ]);
    },
  );

  verifies(
    ["examples.models", "docs.blocks"],
    "whisper hears files of the storage, and fails only those that are none",
    async (context) => {
      writeFileSync(path.join(home.folder, "talk.mp3"), wave(2, 44_100));
      const [, heard = "", later = ""] = await readme("whisper", context);
      for (const text of [heard, later]) {
        expect(JSON.parse(text)).toMatchObject({ text: expect.any(String), parts: expect.any(Array) });
      }
      const files = ["recordings/talk.mp3", "recordings/none.mp3", "../talk.mp3", "recordings/talk.mp3"];
      const answers = await Promise.all(files.map(async (file) => await service().call("whisper", { file })));
      expect(answers.map(({ status, json }) => [status, json.message])).toEqual([
        [200, undefined],
        [500, expect.stringContaining("recordings/none.mp3 cannot be read: No such file")],
        [500, expect.stringContaining("../talk.mp3 is not in the storage")],
        [200, undefined],
      ]);
      expect(answers[3]?.json.result).toEqual(answers[0]?.json.result);
    },
  );

  verifies(
    ["examples.models", "docs.blocks"],
    "diffusion keeps pictures in the storage, and gives a link to each",
    async (context) => {
      const [painted = "", listed] = await readme("diffusion", context, (command) =>
        command.replace("seed=1", "seed=1 shape=64x64"),
      );
      const { file, link } = JSON.parse(painted) as Picture;
      expect(listed).toContain(path.basename(file));
      const { baseUrl, owner } = service().service;
      const headers = { authorization: `Bearer ${owner.token}` };
      const offered = await fetch(`${baseUrl}${link}`, { headers });
      const { url } = (await offered.json()) as { readonly url: string };
      const picture = Buffer.from(await (await fetch(url)).arrayBuffer());
      expect(picture.subarray(1, 4).toString()).toBe("PNG");
      expect([picture.readUInt32BE(16), picture.readUInt32BE(20)]).toEqual([64, 64]);
      const large = await service().call("diffusion", { prompt: "x", shape: "64x9999" });
      expect([large.status, large.json.message]).toEqual([500, expect.stringContaining("at most 2048x2048")]);
    },
  );

  verifies(
    ["examples.models", "docs.blocks"],
    "voice answers what is typed and what is said",
    async (context) => {
      const [typed = ""] = await readme("voice", context);
      expect(typed).toMatch(/^\{"you": "What is a millrace\?"\}\n\{"answer": /);
      const socket = new WebSocket(service().url("voice", "").replace(/^http/, "ws"), {
        headers: { authorization: `Bearer ${service().service.owner.token}` },
      });
      await once(socket, "open");
      const messages: (string | Buffer)[] = [];
      socket.on("message", (data: Buffer, isBinary) => messages.push(isBinary ? data : data.toString()));
      // Without the header of the file. A second of silence ends it.
      for (const sound of [wave(1, 16_000).subarray(44), Buffer.alloc(32_000)]) socket.send(sound);
      while (!Buffer.isBuffer(messages.at(-1))) await once(socket, "message");
      const kinds = messages.map((message) =>
        Buffer.isBuffer(message) ? "sound" : Object.keys(JSON.parse(message))[0],
      );
      expect(kinds).toEqual(["you", "answer", "rate", "sound"]);
      socket.close();
      await once(socket, "close");
    },
  );
});

type Embeddings = { readonly data: readonly { readonly embedding: readonly number[] }[] };
type Picture = { readonly file: string; readonly link: string };

function expectClose(one: readonly number[][] | undefined, other: readonly number[][] | undefined): void {
  const [a, b] = [one?.flat() ?? [], other?.flat() ?? [NaN]];
  expect(a).toHaveLength(b.length);
  for (const [place, value] of a.entries()) expect(value).toBeCloseTo(b[place] ?? NaN, 3);
}
