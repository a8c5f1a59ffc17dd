import { copyFileSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { findInterpreter } from "../../../src/host/interpreter.ts";
import { probeLevels } from "../../../src/host/walls/probes.ts";
import { highestLevel, type Offer } from "../../../src/host/walls/walls.ts";
import { type TestService, testService } from "../../support/service.ts";
import { FIRST_USER, pythonOffering, requireOffered } from "../../support/walls/walled.ts";
import { verifies } from "../../verifies.ts";

const NONE: Offer = {
  process: "no filter here",
  landlock: "no Landlock here",
  userns: "no namespaces here",
  uid: "no users here",
};

// oxlint-disable-next-line no-explicit-any
async function health({ service }: TestService): Promise<any> {
  const headers = { authorization: `Bearer ${service.owner.token}` };
  return await (await fetch(`${service.baseUrl}/readyz?verbose`, { headers })).json();
}

verifies("walls.auto", "auto is the strongest level that the host gives", async (context) => {
  await requireOffered("process", context);
  const { path: python } = await findInterpreter("python3");
  const highest = highestLevel(
    await probeLevels({ python, dataDir: "/nonexistent", reads: [], user: FIRST_USER }),
  );
  expect(await health(await testService({}, { isolation: "auto" }))).toMatchObject({
    status: "ok",
    isolation: highest,
  });
  // A level is the weakest to accept.
  expect(await health(await testService({}, { isolation: "process" }))).toMatchObject({ isolation: highest });
  const without = await health(await testService({}, { isolation: "none" }));
  expect(without).toMatchObject({ isolation: "none", withoutWalls: "MILLRACE_ISOLATION=none" });
});

verifies(
  "walls.auto",
  "where the host gives nothing the service starts, and says what is missing",
  async () => {
    const service = await testService({}, { isolation: "auto", python: pythonOffering(NONE) });
    expect(await health(service)).toMatchObject({
      status: "ok",
      isolation: "none",
      withoutWalls: expect.stringMatching(/no filter here.*seccomp/),
    });
  },
);

verifies("walls.interpreter", "a level behind which Python does not run is not given", async (context) => {
  await requireOffered("landlock", context);
  const real = realpathSync((await findInterpreter("python3")).path);
  context.skip(real.startsWith("/usr/"), "NOT TESTED: every app sees the library of this host's Python");
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-odd-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  // Its library is a link to a place that no app sees.
  const [prefix, elsewhere] = [path.join(folder, "prefix"), path.join(folder, "elsewhere")];
  for (const name of [path.join(prefix, "bin"), path.join(prefix, "lib")])
    mkdirSync(name, { recursive: true });
  const python = path.join(prefix, "bin", "python3");
  copyFileSync(real, python);
  symlinkSync(path.join(path.dirname(path.dirname(real)), "lib"), elsewhere);
  const version = path.basename(real).replace(/^python(3\.\d+)$/, "$1");
  symlinkSync(path.join(elsewhere, `python${version}`), path.join(prefix, "lib", `python${version}`));
  const offer = await probeLevels({ python, dataDir: "/nonexistent", reads: [], user: FIRST_USER });
  expect(offer.process).toBeNull();
  for (const level of ["landlock", "userns"] as const) expect(offer[level]).toMatch(/does not run behind it/);
});
