import { cpSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { measureEmbeddings, measureStepper } from "./gpu-batching.ts";
import { asked, type Sides, STREAMS, streamedRate } from "./gpu-streams.ts";
import { descendantsOf, endOfReplicas } from "./proc.ts";
import { type Child, runTool, startChild } from "./processes.ts";
import { progress } from "./progress.ts";
import { makeScratchDir } from "./scratch.ts";
import { type MillraceRunning, startMillrace } from "./subjects/millrace.ts";
import { timedCall } from "./timed-call.ts";

export const GPU_PART_IDS = ["large", "small", "start", "embeddings", "stepper"] as const;
export type GpuPartId = (typeof GPU_PART_IDS)[number];

const APPS = join(import.meta.dirname, "apps");
/** First tokens of a round, and calls before that are not counted. */
const FIRST_TOKENS = 25;
const WARM_UP_CALLS = 10;
/** Before each call that waits for its first token: the decoder is idle by then. */
const IDLE_MS = 20;
/** After the end of a replica's processes: until the service has seen that its GPU is free. */
const SETTLE_MS = 500;

/** The same without the service, and through it; round by round. */
export type Beside = { readonly alone: readonly number[]; readonly served: readonly number[] };

/** What was measured; parts that were left out are empty. */
export type GpuFigures = {
  /** Tokens per second of a decoder of a billion parameters: its bare loop, and as streams. */
  readonly large: Beside;
  /** The same of a small one. */
  readonly small: Beside;
  /** Milliseconds to the first token of the large one, one call at a time: of the app's function, and of a call. */
  readonly first: Beside;
  /** Milliseconds of a context on the GPU, and of a call that starts a replica which creates one. */
  readonly start: Beside;
  /** Texts per second of an encoder: its function in batches of the best size, and through calls. */
  readonly embeddings: Beside;
  /** Tokens per second of a stepper of a billion parameters: its bare loop, and as streams. */
  readonly stepper: Beside;
  readonly problem: string | null;
};

/**
 * Measures some parts with the service's default isolation; both sides of each take turns. `isTiny`: with models that need
 * no GPU, which only batches have.
 */
export async function measureGpu(
  parts: readonly GpuPartId[],
  rounds: number,
  measureMs: number,
  isTiny: boolean,
): Promise<GpuFigures> {
  const sides = (): Sides => ({ alone: [], served: [] });
  const [large, small, first, start] = [sides(), sides(), sides(), sides()];
  const [embeddings, stepper] = [sides(), sides()];
  let problem: string | null = null;
  try {
    if (parts.includes("large")) {
      await withDecoder("large", async (decoder) => {
        for (let round = 1; round <= rounds; round++) {
          await measureRates(decoder, large, measureMs, `large decoder, ${round}/${rounds}`);
          progress(`first tokens, ${round}/${rounds}`);
          await measureFirstTokens(decoder, first);
        }
      });
    }
    if (parts.includes("small")) {
      await withDecoder("small", async (decoder) => {
        for (let round = 1; round <= rounds; round++)
          await measureRates(decoder, small, measureMs, `small decoder, ${round}/${rounds}`);
      });
    }
    if (parts.includes("start")) await measureStarts(rounds, start);
    if (parts.includes("embeddings")) await measureEmbeddings(rounds, measureMs, embeddings, isTiny);
    if (parts.includes("stepper")) await measureStepper(rounds, measureMs, stepper, isTiny);
  } catch (error) {
    problem = (error as Error).message;
  }
  return { large, small, first, start, embeddings, stepper, problem };
}

type DecoderRunning = { readonly service: MillraceRunning; readonly alone: Child };

/** Runs a decoder of a size as an app and, beside that, by itself. */
async function withDecoder(
  size: "large" | "small",
  use: (decoder: DecoderRunning) => Promise<void>,
): Promise<void> {
  progress(`starting the ${size} decoder`);
  const app = join(makeScratchDir(), "decoder");
  cpSync(join(APPS, "decoder"), app, { recursive: true });
  writeFileSync(join(app, "size"), `${size}\n`);
  const service = await startMillrace(makeScratchDir(), [app]);
  const alone = startChild("python3", [join(app, "alone.py")]);
  await use({ service, alone });
  await alone.stop();
  await service.stop();
}

async function measureRates(
  { service, alone }: DecoderRunning,
  { alone: bare, served }: Sides,
  measureMs: number,
  title: string,
): Promise<void> {
  progress(`${title}: the loop alone`);
  bare.push((await asked(alone, `rate ${measureMs / 1000}`)) as number);
  progress(`${title}: ${STREAMS} streams`);
  served.push(await streamedRate(service, "decoder", measureMs));
}

async function measureFirstTokens(
  { service, alone }: DecoderRunning,
  { alone: direct, served }: Sides,
): Promise<void> {
  const count = WARM_UP_CALLS + FIRST_TOKENS;
  const times = (await asked(alone, `first ${count} ${IDLE_MS / 1000}`)) as number[];
  direct.push(...times.slice(WARM_UP_CALLS));
  for (let call = 1; call <= count; call++) {
    await pause(IDLE_MS);
    const ms = await firstTokenMs(service.callUrl("decoder"), service.headers);
    if (call > WARM_UP_CALLS) served.push(ms);
  }
}

/** From before the connection is opened to the first token. */
async function firstTokenMs(url: string, headers: Readonly<Record<string, string>>): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const startedAt = performance.now();
  let firstMs: number | null = null;
  const call = request(url, {
    method: "POST",
    agent: false,
    headers: { ...headers, "content-type": "application/json" },
  });
  call.once("error", reject);
  call.once("response", (answer) => {
    answer.on("error", reject);
    answer.on("data", () => (firstMs ??= performance.now() - startedAt));
    answer.once("end", () => {
      if (answer.statusCode === 200 && firstMs !== null) resolve(firstMs);
      else reject(new Error(`the decoder answered ${answer.statusCode} without a token`));
    });
  });
  call.end(JSON.stringify({ n: 1 }));
  return await promise;
}

async function measureStarts(rounds: number, { alone, served }: Sides): Promise<void> {
  progress("deploying context");
  const service = await startMillrace(makeScratchDir(), ["context"]);
  const url = service.callUrl("context");
  let last = await timedCall(url, service.headers, "{}");
  const processes = descendantsOf(service.pid).length;
  for (let round = 1; round <= rounds; round++) {
    progress(`a bare context, then a start with one, ${round}/${rounds}`);
    await endOfReplicas(service.pid, processes, 1);
    await pause(SETTLE_MS);
    // The service's look at its GPUs keeps the driver awake for both.
    alone.push(Number(await runTool("python3", [join(APPS, "context/bare.py")])));
    const call = await timedCall(url, service.headers, "{}");
    if (call.result["import"] !== last.result["import"])
      throw new Error("the template was not kept: the app was imported again");
    if (call.result["replica"] === last.result["replica"]) throw new Error("no replica was started");
    served.push(call.ms);
    last = call;
  }
  await service.stop();
}
