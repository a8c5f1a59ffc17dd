// How many nodes share many apps out while nodes come and go, by the service's own decisions and on a database in
// memory: `node bench/simulate-nodes.ts [--nodes 100] [--apps 20000] [--minutes 30] [--seed 1]`.
// With `--postgres` it measures instead what processor time a real one takes for each of their questions.
import { parseArgs } from "node:util";
import { dice } from "../test/support/dice.ts";
import { NodeCrowd } from "./node-crowd.ts";
import { measureStatements } from "./node-statements.ts";
import { stopAll } from "./processes.ts";
import { removeScratchDirs } from "./scratch.ts";

const { values } = parseArgs({
  options: {
    nodes: { type: "string", default: "100" },
    apps: { type: "string", default: "20000" },
    minutes: { type: "string", default: "30" },
    seed: { type: "string", default: "1" },
    postgres: { type: "boolean", default: false },
  },
});
const [nodeCount, appCount, minutes, seed] = [values.nodes, values.apps, values.minutes, values.seed].map(
  Number,
) as [number, number, number, number];
/** Processors of the machines, as they come. */
const MIXED = [4, 8, 8, 16, 32];
const MEAN_GAP_MS = 30_000;
const AWAY_MS = [10_000, 70_000] as const;
const ORDERLY = 1 / 3;
/** What every node asks besides, each second: changes, the backlog, webhooks that are due. */
const OTHER_A_SECOND = 3;

const roll = dice(seed);

function print(what: string, figure: string): void {
  console.log(`${what.padEnd(84)}${figure}`);
}

function homes(count: number, cpusOf: (at: number) => number) {
  return Array.from({ length: count }, (_, at) => ({ home: `home-${at}`, cpus: cpusOf(at) }));
}

async function showEvenness(title: string, cpusOf: (at: number) => number): Promise<NodeCrowd> {
  const crowd = new NodeCrowd(appCount);
  await crowd.join(homes(nodeCount, cpusOf));
  await crowd.calm();
  const shares = crowd.shares();
  print(
    `${title}: apps by processor, fewest and most, of the mean`,
    `${two(Math.min(...shares))} ${two(Math.max(...shares))}`,
  );
  print(`${title}: apps that are not where they belong`, String(crowd.misplaced()));
  return crowd;
}

/** One change in the calm: how many apps moved, how many had to, and how long it took. */
async function showChange(
  crowd: NodeCrowd,
  title: string,
  ideal: number,
  change: () => Promise<void> | void,
): Promise<void> {
  const before = crowd.world.moved;
  await change();
  const ms = await crowd.calm();
  const moved = crowd.world.moved - before;
  print(`${title}: apps moved, of the ideal`, `${moved} ${two(moved / (ideal * appCount))}`);
  print(`${title}: until the last had moved`, `${(ms / 1000).toFixed(1)} s`);
  if (crowd.misplaced() > 0) throw new Error("an app is not where it belongs");
}

async function showChurn(crowd: NodeCrowd): Promise<void> {
  const { world } = crowd;
  const [movedBefore, beganAt] = [world.moved, crowd.clock.now()];
  const statements = new Map(world.statements());
  const away: { readonly home: string; readonly cpus: number; readonly backAt: number }[] = [];
  let [changes, ideal, unserved, looks] = [0, 0, 0, 0];
  let nextAt = beganAt;
  for (const endAt = beganAt + minutes * 60_000; crowd.clock.now() < endAt;) {
    const now = crowd.clock.now();
    if (now >= nextAt) {
      nextAt = now - MEAN_GAP_MS * Math.log(1 - roll(1));
      const node = crowd.living[Math.floor(roll(crowd.living.length))];
      if (node) {
        changes += 1;
        ideal += crowd.idealShare(node.id);
        const { home, capacity } = node.details;
        const [least, most] = AWAY_MS;
        away.push({ home, cpus: capacity.cpus, backAt: now + least + roll(most - least) });
        if (roll(1) < ORDERLY) await crowd.leave(node.id);
        else crowd.kill(node.id);
      }
    }
    for (const back of away.filter(({ backAt }) => backAt <= now)) {
      away.splice(away.indexOf(back), 1);
      await crowd.join([back]);
      changes += 1;
      ideal += crowd.idealShare(crowd.living.at(-1)?.id ?? "");
    }
    await crowd.pass(1_000);
    const ids = new Set(crowd.living.map(({ id }) => id));
    unserved += [...world.owners.values()].filter((owner) => owner === null || !ids.has(owner)).length;
    looks += appCount;
  }
  const seconds = (crowd.clock.now() - beganAt) / 1000;
  const moved = world.moved - movedBefore;
  print(
    `${minutes} minutes, ${changes} changes: apps moved by each, of the ideal`,
    `${Math.round(moved / changes)} ${two(moved / (ideal * appCount))}`,
  );
  print("of the time of all apps, without a living node", `${((unserved / looks) * 100).toFixed(2)} %`);
  await crowd.calm();
  const shares = crowd.shares();
  print(
    "afterwards: apps by processor, fewest and most, of the mean",
    `${two(Math.min(...shares))} ${two(Math.max(...shares))}`,
  );
  let all = OTHER_A_SECOND * nodeCount;
  for (const [kind, count] of world.statements()) {
    const rate = (count - (statements.get(kind) ?? 0)) / seconds;
    all += rate;
    print(`statements a second: ${kind}`, rate.toFixed(1));
  }
  print("statements a second: changes, backlog, webhooks", (OTHER_A_SECOND * nodeCount).toFixed(1));
  print("statements a second: all", all.toFixed(0));
}

function two(figure: number): string {
  return figure.toFixed(2);
}

async function showStatements(): Promise<void> {
  try {
    for (const [name, ms] of await measureStatements(nodeCount, appCount))
      print(`processor time of Postgres: ${name}`, `${two(ms)} ms`);
  } finally {
    await stopAll();
    removeScratchDirs();
  }
}

async function simulate(): Promise<void> {
  await showEvenness("machines alike", () => 8);
  const crowd = await showEvenness("machines of 4 to 32 processors", (at) => MIXED[at % MIXED.length] ?? 8);
  const [first] = crowd.living;
  if (!first) throw new Error("there are no nodes");
  await showChange(crowd, "one dies", crowd.idealShare(first.id), () => crowd.kill(first.id));
  const { home, capacity } = first.details;
  const back = [{ home, cpus: capacity.cpus }];
  const share =
    capacity.cpus /
    (crowd.living.reduce((sum, { details }) => sum + details.capacity.cpus, 0) + capacity.cpus);
  await showChange(crowd, "it comes back", share, () => crowd.join(back));
  const last = crowd.living.at(-1);
  if (last)
    await showChange(crowd, "it leaves in good order", crowd.idealShare(last.id), () => crowd.leave(last.id));
  await crowd.join(back);
  await crowd.calm();
  await showChurn(crowd);
}

print("nodes, apps, seed", `${nodeCount} ${appCount} ${seed}`);
await (values.postgres ? showStatements() : simulate());
