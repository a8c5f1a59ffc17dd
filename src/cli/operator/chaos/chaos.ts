import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { readSettings } from "../../../config/settings.ts";
import { type Address, apiOf } from "../../client/api.ts";
import { deploySources } from "../../client/upload-app.ts";
import { CliFailure, EXIT, interruptible } from "../../failure.ts";
import type { OperatorFlags } from "../../options.ts";
import { Output, paint } from "../../output.ts";
import { awaitFates, Ledger, LEDGER_APP, Load, reckon, type Toll } from "./load.ts";
import { ScratchService } from "./scratch-service.ts";

/** Load before each kill, and after the last. */
const PHASE_MS = 2_000;
/** A run that is certainly in progress when it is killed. */
const LONG_MS = 3_000;
const BEGIN_MS = 30_000;
const PATIENCE_MS = 60_000;
const LOOK_MS = 20;

/** `millrace doctor --chaos`: kills a replica and the service under load, and reports what that cost. */
export async function chaos(flags: OperatorFlags): Promise<void> {
  const { settings } = readSettings({ flags, env: process.env });
  const out = new Output(flags);
  const startedAt = performance.now();
  const seconds = (): number => (performance.now() - startedAt) / 1000;
  const say = (text: string): void => {
    const time = paint("dim", `${seconds().toFixed(1)} s`.padStart(7), process.stderr);
    if (!out.isJson) process.stderr.write(`${time}  ${text}\n`);
  };
  const toll = await interruptible(async (signal) => await torment(settings.python, say, seconds, signal));
  out.show(toll, () => tollText(toll));
  if (toll.lost + toll.stuck > 0) process.exitCode = EXIT.failure;
}

async function torment(
  python: string,
  say: (text: string) => void,
  seconds: () => number,
  signal: AbortSignal,
): Promise<Toll> {
  const service = new ScratchService(python);
  try {
    say(`starting a scratch service in ${service.folder}`);
    let address = await service.start(signal);
    await deployLedger(service.folder, address, signal);
    say("the app is deployed; async and sync calls begin");
    const load = new Load(address);
    const phase = async (): Promise<void> => await sleep(PHASE_MS, undefined, { signal });
    const counts = (): string => `${load.accepted.size} accepted, ${load.calls.answered} answered`;
    try {
      await phase();
      const replica = await busyReplica(service, address, load, signal);
      if (!service.killReplica(replica))
        throw new CliFailure(`the replica ${replica} was gone before it was killed`);
      say(`${counts()}; killing a replica: process ${replica}`);
      await phase();
      await busyReplica(service, address, load, signal);
      say(`${counts()}; killing the service: process ${await service.kill()}`);
      load.address = null;
      address = await service.start(signal);
      load.address = address;
      say("it is up again");
      await phase();
    } finally {
      if (signal.aborted) await service.remove(); // So that no caller waits for an answer.
      await load.stop();
    }
    say(`${counts()}; waiting until all have ended`);
    const fates = await awaitFates(address, load.accepted, performance.now() + PATIENCE_MS, signal);
    return reckon(fates, Ledger.read(service.dataDir, address.projectId), load.calls, seconds());
  } finally {
    await service.remove();
  }
}

async function deployLedger(folder: string, address: Address, signal: AbortSignal): Promise<void> {
  const { name, main, toml } = LEDGER_APP;
  const sources = path.join(folder, name);
  mkdirSync(sources);
  writeFileSync(path.join(sources, "main.py"), main);
  writeFileSync(path.join(sources, "millrace.toml"), toml);
  await deploySources(apiOf(address, signal), name, sources);
}

/** Has a replica begin a long run; resolves with the replica's process id. */
async function busyReplica(
  { dataDir }: ScratchService,
  { projectId }: Address,
  load: Load,
  signal: AbortSignal,
): Promise<number> {
  const deadline = performance.now() + BEGIN_MS;
  const id = await load.submit(LONG_MS);
  if (id === null) throw new CliFailure("an async run was not accepted");
  while (performance.now() < deadline) {
    const pid = Ledger.read(dataDir, projectId).pids.get(id);
    if (pid !== undefined) return pid;
    await sleep(LOOK_MS, undefined, { signal });
  }
  throw new CliFailure(`the run ${id} did not begin`);
}

function tollText({ accepted, finished, lost, duplicated, stuck, seconds, sync_calls }: Toll): string {
  const bad = (count: number): string => paint(count === 0 ? "green" : "red", String(count));
  const { answered, failed, cut } = sync_calls;
  return [
    "",
    `accepted    ${accepted}   async runs that got their 202`,
    `finished    ${finished}   of them, with the right result`,
    `lost        ${bad(lost)}`,
    `stuck       ${bad(stuck)}`,
    `duplicated  ${duplicated}   executed more than once, because a kill hit them`,
    `sync calls  ${answered} answered, ${failed} told that they failed, ${cut} cut off`,
    `seconds     ${seconds}`,
    "",
  ].join("\n");
}
