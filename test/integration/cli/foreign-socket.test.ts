import { chmodSync, mkdirSync, rmSync, symlinkSync } from "node:fs";
import { createServer } from "node:http";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { runtimeDir } from "../../../src/kit/runtime-dir.ts";
import { MILLRACE, bootstrap, run, scratchDirectory } from "../../support/command-line.ts";
import { verifies } from "../../verifies.ts";

/** Somebody who waits where the service of a data directory would, and answers whatever is asked. */
async function impostor(folder: string): Promise<string[]> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? "");
    response.end(JSON.stringify({ projectId: "p-forged00", token: "forged" }));
  });
  await new Promise<void>((resolve) => server.listen(path.join(folder, "control.sock"), resolve));
  onTestFinished(() => void server.close());
  return asked;
}

verifies(
  "hardening.own-socket",
  "a socket in a folder that is not the user's alone is nobody to ask",
  async () => {
    for (const disguise of ["link", "open to all"]) {
      const dataDir = path.join(scratchDirectory(), "data");
      const { fields } = await bootstrap(dataDir);
      const place = runtimeDir(dataDir);
      rmSync(place, { recursive: true, force: true });
      onTestFinished(() => rmSync(place, { recursive: true, force: true }));
      const elsewhere = scratchDirectory();
      if (disguise === "link") {
        symlinkSync(elsewhere, place);
      } else {
        mkdirSync(place);
        chmodSync(place, 0o777);
      }
      const asked = await impostor(disguise === "link" ? elsewhere : place);
      const { code, stdout } = await run(MILLRACE, ["bootstrap", "--json"], {
        env: { MILLRACE_DATA_DIR: dataDir },
      });
      expect(asked).toEqual([]);
      expect(stdout).not.toContain("forged");
      if (code === 0) expect(JSON.parse(stdout)).toEqual(fields);
    }
  },
);
