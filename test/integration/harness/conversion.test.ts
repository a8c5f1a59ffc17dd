import { expect } from "vitest";
import { returned, sharedPool } from "../../support/pool.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
class Strange:
    def model_dump(self, mode):
        if Strange.raises:
            raise LookupError("while it is encoded")
        return "fine"

STRANGE = Strange()

def run(raises=False):
    Strange.raises = raises
    return [STRANGE]
`;

for (const [how, concurrency, main] of [
  ["one at a time", 1, MAIN],
  ["in threads", 2, MAIN],
  ["on a loop", 2, MAIN.replace("def run", "async def run")],
] as const) {
  const pool = sharedPool({
    main,
    toml: `[scaling]\nmax_replicas = 1\nreplica_concurrency = ${concurrency}`,
  });
  verifies("run.sync.not-json", `a result whose conversion raises fails its call alone, ${how}`, async () => {
    const outcome = await pool().submit("run", { raises: true }).ended;
    expect(outcome).toMatchObject({ kind: "raised", message: "LookupError: while it is encoded" });
    expect(returned(await pool().submit("run", {}).ended)).toEqual(["fine"]);
    expect(pool().exits).toEqual([]);
  });
}
