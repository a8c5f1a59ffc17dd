import { request } from "node:http";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { type Machine, machineLines } from "./machine.ts";
import { runTool } from "./processes.ts";
import { progress } from "./progress.ts";
import { verdictLines } from "./report.ts";
import { makeScratchDir } from "./scratch.ts";
import { startMillrace } from "./subjects/millrace.ts";
import { judge, medianBy, type Verdict } from "./targets.ts";

const MODEL = join(import.meta.dirname, "apps/decoder/model.py");
const STREAMS = 256;
/** More than any measurement reads. */
const TOKENS = 10_000_000;
/** Until all streams have begun and are read evenly. */
const WARM_UP_MS = 2_000;
/** A model of a billion parameters is made, and its graph recorded. */
const START_MS = 120_000;

/** Tokens per second of a decoder, round by round. */
export type GpuFigures = {
  /** In a loop of its own. */
  readonly bare: readonly number[];
  /** As streams through the service, with its default isolation. */
  readonly streamed: readonly number[];
  readonly problem: string | null;
};

/** Measures a decoder with 256 sequences by itself and as streams of an app; they take turns. */
export async function measureGpu(rounds: number, measureMs: number): Promise<GpuFigures> {
  const bare: number[] = [];
  const streamed: number[] = [];
  try {
    const service = await startMillrace(makeScratchDir(), ["decoder"]);
    for (let round = 0; round < rounds; round++) {
      progress(`the loop alone, ${round + 1}/${rounds}`);
      const args = [MODEL, String(measureMs / 1000)];
      bare.push(Number(await runTool("python3", args, { limitMs: START_MS + measureMs })));
      progress(`${STREAMS} streams, ${round + 1}/${rounds}`);
      streamed.push(await streamFor(service.callUrl("decoder"), service.headers, measureMs));
    }
    await service.stop();
  } catch (error) {
    return { bare, streamed, problem: (error as Error).message };
  }
  return { bare, streamed, problem: null };
}

/** Reads all streams at once; gives the messages per second of all together. */
async function streamFor(
  url: string,
  headers: Readonly<Record<string, string>>,
  measureMs: number,
): Promise<number> {
  let messages = 0;
  const begun: Promise<void>[] = [];
  const calls = Array.from({ length: STREAMS }, () => {
    const call = request(url, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json" },
    });
    begun.push(
      new Promise((resolve, reject) => {
        call.once("error", reject);
        call.once("response", (answer) => {
          if (answer.statusCode !== 200) reject(new Error(`the decoder answered ${answer.statusCode}`));
          answer.on("error", () => {}); // It is ended in the middle.
          // Every message ends with an empty line, and no token has one.
          answer.on("data", (bytes: Buffer) => {
            for (let at = bytes.indexOf("\n\n"); at >= 0; at = bytes.indexOf("\n\n", at + 2)) messages++;
          });
          answer.once("data", () => resolve());
        });
      }),
    );
    call.end(JSON.stringify({ n: TOKENS }));
    return call;
  });
  try {
    await Promise.all(begun);
    await pause(WARM_UP_MS);
    const [before, startedAt] = [messages, performance.now()];
    await pause(measureMs);
    return ((messages - before) * 1000) / (performance.now() - startedAt);
  } finally {
    for (const call of calls) call.on("error", () => {}).destroy();
  }
}

/** Streams must not slow the GPU. */
export function judgeGpu({ bare, streamed }: GpuFigures): Verdict[] {
  const ratios = streamed.flatMap((rate, round) => {
    const alone = bare[round];
    return alone === undefined ? [] : [rate / alone];
  });
  const value = medianBy(ratios, (ratio) => ratio);
  const spread = ratios.length === 0 ? null : ([Math.min(...ratios), Math.max(...ratios)] as const);
  return [
    judge({
      what: `${STREAMS} streams / the loop alone, tokens per second`,
      bound: "at least",
      target: 0.99,
      value,
      spread,
      unit: "ratio",
    }),
  ];
}

/** For people. */
export function gpuText(machine: Machine, figures: GpuFigures, verdicts: readonly Verdict[]): string {
  const rates = (values: readonly number[]): string => values.map((rate) => rate.toFixed(0)).join(", ");
  const lines = [
    ...machineLines(machine),
    `a decoder of a billion parameters, ${STREAMS} sequences; tokens per second, round by round`,
    `the loop alone   ${rates(figures.bare)}`,
    `streamed         ${rates(figures.streamed)}`,
    ...(figures.problem === null ? [] : ["", `failed: ${figures.problem}`]),
  ];
  return [...lines, "", ...verdictLines(verdicts)].join("\n");
}
