import { test } from "vitest";
import { readFileSync } from "node:fs";
import { testPool } from "../../support/pool.ts";
const source = readFileSync("test/integration/harness/disturb.test.ts", "utf8");
const main = "import faulthandler, signal\nfaulthandler.register(signal.SIGUSR1, file=open('/tmp/th/dump', 'a'), all_threads=True)\n" + /const MAIN = `([^]*?)`;/.exec(source)![1]!.replaceAll("\\\\", "\\");
test.each([1, 4])("x %s", async (c) => {
  const pool = await testPool({ main, toml: `[deployment]\nfork="never"\n[scaling]\nmax_replicas = 1\nreplica_concurrency = ${c}\n` });
  for (const f of ["forked_returns", "forked_raises", "forked_exits", "forked_ends", "pooled"])
    for (let k = 0; k < 60; k++) {
      let done = false;
      const v = pool.value(f, {}).then((x) => { done = true; return x; }, (e) => { done = true; console.log(String(e)); });
      const t = setTimeout(() => { if (!done) { console.log("HANG", c, f, k); for (const r of pool.pool.replicas) process.kill(r.pid, "SIGUSR1"); } }, 3000);
      await Promise.race([v, new Promise((r) => setTimeout(r, 4000))]);
      clearTimeout(t);
      if (!done) return;
    }
  console.log("fine", c);
});
