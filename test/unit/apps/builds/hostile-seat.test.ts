import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Readable } from "node:stream";
import { expect, onTestFinished } from "vitest";
import { compileBundle } from "../../../../src/apps/builds/compile-bundle.ts";
import { bringBundleBack } from "../../../../src/apps/builds/elsewhere/take-folders.ts";
import type { BuildSite, Elsewhere } from "../../../../src/apps/builds/site.ts";
import { TarWriter } from "../../../../src/kit/tar/archive.ts";
import type { Builder } from "../../../../src/engines/build-seats.ts";
import { verifies } from "../../../verifies.ts";

/** A seat whose agent is the app's own image: it sends that archive, and prints those lines. */
async function hostileSeat(
  fill: (tar: TarWriter) => Promise<unknown>,
  lines: readonly string[] = [],
): Promise<Builder> {
  const pieces: Buffer[] = [];
  const write = async (bytes: Buffer): Promise<void> => void pieces.push(Buffer.from(bytes));
  const tar = new TarWriter({ write, finish: async () => {}, abandon: async () => {} });
  await fill(tar);
  await tar.finish();
  return {
    ground: new Promise(() => {}),
    run: async ({ onLine }) => {
      for (const line of lines) onLine(line, "stdout");
      return { code: 0, detail: "", lastWords: "" };
    },
    take: async (_, use) => await use(Readable.from(pieces)),
    bring: async () => {},
    close: () => {},
  };
}

function siteOf(seat: Builder, said: string[] = []) {
  const root = mkdtempSync(path.join(tmpdir(), "millrace-hostile-seat-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const bundleDir = path.join(root, "bundle");
  const asideDir = path.join(root, "aside");
  for (const folder of [bundleDir, asideDir]) mkdirSync(folder);
  writeFileSync(path.join(bundleDir, "main.py"), "");
  const rest = { seat, user: null, say: (line: string) => void said.push(line) };
  // oxlint-disable-next-line no-unsafe-type-assertion
  return { root, site: { bundleDir, asideDir, ...rest } as unknown as BuildSite };
}

const CASES: [string, (tar: TarWriter) => Promise<unknown>][] = [
  ["it holds too much", async (tar) => await tar.addBytes("large", Buffer.alloc(1_001), 0)],
  ["ENAMETOOLONG", async (tar) => await tar.addBytes("x".repeat(300), Buffer.alloc(1), 0)],
  [
    "an entry has the invalid name",
    async (tar) => {
      await tar.addLink("main.py", ".", 0);
      await tar.addLink("main.py/above", "..", 0);
      await tar.addLink("main.py/above/beside", "bundle", 0);
    },
  ],
];

verifies("elsewhere.judged", "a bundle that a seat has made up leaves the bundle as it was", async () => {
  // oxlint-disable-next-line no-unsafe-type-assertion
  const elsewhere = { maxFolderBytes: 1_000 } as Elsewhere;
  for (const [why, fill] of CASES) {
    const seat = await hostileSeat(fill);
    const { root, site } = siteOf(seat);
    const refused = await bringBundleBack(seat, site, elsewhere).catch((error: unknown) => error);
    expect(refused).toMatchObject({ name: "BuildError", message: expect.stringContaining(why) });
    expect(readdirSync(root)).toEqual(["aside", "bundle"]);
    expect(readdirSync(site.bundleDir)).toEqual(["main.py"]);
  }
});

verifies("elsewhere.order", "mistakes that are none are not told", async () => {
  for (const line of ["no JSON", "null", '{"file":"main.py","line":1,"text":{},"message":"x"}']) {
    const said: string[] = [];
    const seat = await hostileSeat(async () => {}, [line, "done"]);
    await compileBundle("/usr/bin/python3", false, true, siteOf(seat, said).site);
    expect(said).toEqual(["warning: could not precompile the bundle"]);
  }
});
