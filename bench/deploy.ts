import { join } from "node:path";
import { byOneCall, byProtocol, type DeployWay, makeHelloZip, timeDeploy } from "./deploy-client.ts";
import { runTool, startChild } from "./processes.ts";
import { progress } from "./progress.ts";
import { makeScratchDir } from "./scratch.ts";
import { Skipped } from "./subject.ts";
import { prepareFastapi } from "./subjects/fastapi.ts";
import { type MillraceRunning, startMillrace } from "./subjects/millrace.ts";
import { timedCall } from "./timed-call.ts";

const DEPLOY_IDS = ["bare", "fastapi", "fresh", "fresh-once", "again", "again-once"] as const;
export type DeployId = (typeof DEPLOY_IDS)[number];

/** Milliseconds of each round; empty where a subject cannot be had here. */
export type DeployFigures = {
  readonly rounds: number;
  readonly times: Readonly<Record<DeployId, readonly number[]>>;
  readonly note: string | null;
  readonly problem: string | null;
};

const WARM_UP = 2;
const BARE = join(import.meta.dirname, "floor/bare_server.py");

type Round = (round: number) => Promise<number>;

/**
 * Measures deploys of a hello app until its first answer, new and again, by both ways; beside them the same
 * function in a process of its own, from its start to its first answer. All take turns.
 */
export async function measureDeploy(rounds: number): Promise<DeployFigures> {
  const times: Record<DeployId, number[]> = {
    bare: [],
    fastapi: [],
    fresh: [],
    "fresh-once": [],
    again: [],
    "again-once": [],
  };
  let note: string | null = null;
  let problem: string | null = null;
  try {
    const python = await runTool("python3", ["-c", "import sys; print(sys.executable)"]);
    const fastapi = await findFastapi();
    note = fastapi.note;
    progress("starting the service");
    const service = await startMillrace(makeScratchDir(), []);
    const subjects: [DeployId, Round][] = [
      ["bare", async (round) => await timeBare(python, round)],
      ...(fastapi.round ? [["fastapi", fastapi.round] as [DeployId, Round]] : []),
      ["fresh", fresh(service, "fresh", byProtocol)],
      ["fresh-once", fresh(service, "fresh-once", byOneCall)],
      ["again", again(service, "again", byProtocol)],
      ["again-once", again(service, "again-once", byOneCall)],
    ];
    for (let round = -WARM_UP; round < rounds; round++) {
      progress(round < 0 ? "warming up" : `round ${round + 1}/${rounds}`);
      for (const [id, measure] of subjects) {
        const ms = await measure(round);
        if (round >= 0) times[id].push(ms);
      }
    }
    await service.stop();
  } catch (error) {
    problem = (error as Error).message;
  }
  return { rounds, times, note, problem };
}

/** Each round another app. */
function fresh(service: MillraceRunning, name: string, way: DeployWay): Round {
  return async (round) => {
    const app = `${name}-${round + WARM_UP}`;
    return await timeDeploy(way, service, app, await makeHelloZip(app));
  };
}

/** Each round another version of one app, whose replica of the version before is up. The first is no redeploy. */
function again(service: MillraceRunning, name: string, way: DeployWay): Round {
  return async (round) => await timeDeploy(way, service, name, await makeHelloZip(`${name}-${round}`));
}

async function timeBare(python: string, round: number): Promise<number> {
  const { folder } = await makeHelloZip(`bare-${round}`);
  const startedAt = performance.now();
  const child = startChild(python, [BARE, folder]);
  const { url } = JSON.parse(await child.nextLine()) as { url: string };
  await timedCall(url, {}, "{}");
  const ms = performance.now() - startedAt;
  await child.stop();
  return ms;
}

async function findFastapi(): Promise<{ note: string; round: Round | null }> {
  try {
    const { note, start } = await prepareFastapi();
    const round = async (): Promise<number> => {
      const startedAt = performance.now();
      const { url, stop } = await start("run");
      await timedCall(url, {}, "{}");
      const ms = performance.now() - startedAt;
      await stop();
      return ms;
    };
    return { note, round };
  } catch (error) {
    if (error instanceof Skipped) return { note: `FastAPI skipped: ${error.message}`, round: null };
    throw error;
  }
}
