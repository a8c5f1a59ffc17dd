import { cpSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startBatchingLoad } from "./batching/load-client.ts";
import { problemOf } from "./load-job.ts";
import { asked, type Sides, streamedRate } from "./gpu-streams.ts";
import { startChild } from "./processes.ts";
import { progress } from "./progress.ts";
import { makeScratchDir } from "./scratch.ts";
import { startMillrace } from "./subjects/millrace.ts";

const APPS = join(import.meta.dirname, "apps");
/** Of texts that are embedded at once, by the bare loop. */
const SIZES = [16, 32, 64, 128, 256] as const;
const TEXT_BYTES = 512;
/** Enough to tell which size is best. */
const TRY_MS = 2_000;
/** So many batches' callers call again at once: while one runs, the next is complete. */
const BATCHES = 4;
const LEAD_IN_MS = 2_000;
const GPU = `
[hardware]
compute = "ANY"
gpu_count = 1
gpu_memory = 40
memory = 32.0
`;

/** Texts per second of a batched function through the service, beside the function alone at its best size. */
export async function measureEmbeddings(
  rounds: number,
  measureMs: number,
  { alone, served }: Sides,
  isTiny: boolean,
): Promise<void> {
  progress("starting the encoder alone");
  const folder = makeScratchDir();
  const app = join(folder, "embeddings");
  cpSync(join(APPS, "embeddings"), app, { recursive: true });
  writeFileSync(join(app, "size"), isTiny ? "tiny\n" : "middle\n");
  const bare = startChild("python3", [join(app, "alone.py")]);
  const rateOf = async (size: number, ms: number) =>
    (await asked(bare, `rate ${size} ${ms / 1000} ${TEXT_BYTES}`)) as number;
  let best = { size: 0, perSecond: 0 };
  for (const size of SIZES) {
    progress(`the encoder alone, ${size} texts at once`);
    const perSecond = await rateOf(size, Math.min(measureMs, TRY_MS));
    if (perSecond > best.perSecond) best = { size, perSecond };
  }
  // Two batches, so that the GPU works on one while the results of the other are on their way.
  const scaling = "min_replicas = 1\nmax_replicas = 1\nreplica_concurrency = 2\nmax_queue = 10000\n";
  const batching = `[batching.embed]\nmax_size = ${best.size}\n`;
  writeFileSync(join(app, "millrace.toml"), tomlOf("embeddings", isTiny, scaling, batching));
  const service = await startMillrace(makeScratchDir(), [app]);
  const load = startBatchingLoad();
  const server = { url: service.callUrl("embeddings", "embed"), headers: service.headers };
  const body = JSON.stringify({ text: "x".repeat(TEXT_BYTES) });
  const arrivals = { kind: "closed", connections: BATCHES * best.size } as const;
  for (let round = 1; round <= rounds; round++) {
    progress(`embeddings, ${round}/${rounds}: alone, ${best.size} at once`);
    alone.push(await rateOf(best.size, measureMs));
    progress(`embeddings, ${round}/${rounds}: ${arrivals.connections} connections`);
    const result = await load.measure(server, body, { arrivals, leadInMs: LEAD_IN_MS, measureMs });
    const problem = problemOf(result);
    if (problem !== null) throw new Error(`embeddings: ${problem}`);
    served.push(result.callsPerSecond);
  }
  await load.stop();
  await service.stop();
  await bare.stop();
}

/** Tokens per second of a stepper as streams, beside its bare loop. */
export async function measureStepper(
  rounds: number,
  measureMs: number,
  { alone, served }: Sides,
  isTiny: boolean,
): Promise<void> {
  progress("starting the stepper");
  const app = join(makeScratchDir(), "stepper");
  cpSync(join(APPS, "stepper"), app, { recursive: true });
  cpSync(join(APPS, "decoder/model.py"), join(app, "model.py"));
  writeFileSync(join(app, "size"), isTiny ? "tiny\n" : "large\n");
  const scaling = "min_replicas = 1\nmax_replicas = 1\n";
  const batching = '[batching.run]\nstepper = "Decoder"\n';
  writeFileSync(join(app, "millrace.toml"), tomlOf("stepper", isTiny, scaling, batching));
  const service = await startMillrace(makeScratchDir(), [app]);
  const bare = startChild("python3", [join(app, "alone.py")]);
  for (let round = 1; round <= rounds; round++) {
    progress(`stepper, ${round}/${rounds}: alone`);
    alone.push((await asked(bare, `rate ${measureMs / 1000}`)) as number);
    progress(`stepper, ${round}/${rounds}: streams`);
    served.push(await streamedRate(service, "stepper", measureMs));
  }
  await bare.stop();
  await service.stop();
}

function tomlOf(name: string, isTiny: boolean, scaling: string, batching: string): string {
  return `[deployment]\nname = "${name}"\n${isTiny ? "" : GPU}\n[scaling]\n${scaling}\n${batching}`;
}
