import { readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { asOwner } from "../../support/as-owner.ts";
import { scratchDirectory } from "../../support/command-line.ts";
import type { TestService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { ended, submit } from "../../integration/async/site.ts";
import { pair } from "../../integration/nodes/pair.ts";

const MAIN = `
import os

def run(n, ledger):
    file = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, ("%d\\n" % n).encode())
    os.close(file)
    return n
`;
const MOVES = 6;

const nodes = pair({ app: { main: MAIN, toml: "[scaling]\nmin_replicas = 1\n" } });

type Seen = { readonly id: string; readonly isSelf: boolean; readonly apps: number };

async function own(at: TestService): Promise<Seen> {
  const seen = (await asOwner(at)<Seen[]>("GET", "/v2/nodes")).find(({ isSelf }) => isSelf);
  if (!seen) throw new Error("a node sees itself");
  return seen;
}

/** Has the app moved from one node to the other. */
async function move(from: TestService, to: TestService): Promise<void> {
  const state = async (at: TestService, is: string): Promise<void> => {
    await asOwner(nodes.first)("PATCH", `/v2/nodes/${(await own(at)).id}`, { state: is });
  };
  await state(to, "live");
  await state(from, "leaving");
  await until("the app has moved", async () => (await own(to)).apps === 1);
}

verifies(
  "nodes.accept",
  "runs accepted while their app moves to and fro are executed once each",
  async () => {
    const ledger = path.join(scratchDirectory(), "ledger");
    const services = [nodes.first, nodes.second];
    // The first time it takes longer than a lease: nodes that have just met judge nobody.
    await move(nodes.first, nodes.second);
    await move(nodes.second, nodes.first);
    const over = new AbortController();
    const accepted = new Map<string, number>();
    let count = 0;
    const submitters = [...services, ...services].map(async (on) => {
      while (!over.signal.aborted) {
        const n = (count += 1);
        accepted.set(await submit(on, "app", { n, ledger }), n);
      }
    });
    for (let moves = 0; moves < MOVES; moves += 1) {
      await (moves % 2 === 0 ? move(nodes.first, nodes.second) : move(nodes.second, nodes.first));
      const before = accepted.size;
      await until("runs are accepted there", () => accepted.size > before + 10);
    }
    over.abort();
    await Promise.all(submitters);
    for (const [id, n] of accepted) expect((await ended(nodes.first, "app", id)).result).toBe(n);
    const executed = readFileSync(ledger, "utf8").trim().split("\n").map(Number);
    expect(executed.toSorted((a, b) => a - b)).toEqual([...accepted.values()].toSorted((a, b) => a - b));
  },
);
