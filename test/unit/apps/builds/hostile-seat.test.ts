import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { expect, onTestFinished } from "vitest";
import { compileBundle } from "../../../../src/apps/builds/compile-bundle.ts";
import { bringBundleBack, storeFromSeat } from "../../../../src/apps/builds/remote/take-folders.ts";
import type { BuildSite, RemoteBuilds } from "../../../../src/apps/builds/site.ts";
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
  return seatOf(withDigest(gzipSync(Buffer.concat(pieces))), lines);
}

/** As agents send an archive. */
function withDigest(packed: Buffer): Buffer {
  return Buffer.concat([packed, createHash("sha256").update(packed).digest()]);
}

/** A seat that sends those bytes, a few at a time. */
function seatOf(sent: Buffer, lines: readonly string[] = []): Builder {
  const pieces = Array.from({ length: Math.ceil(sent.length / 7) }, (_, at) =>
    sent.subarray(at * 7, at * 7 + 7),
  );
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
  return { root, site: { bundleDir, asideDir, ...rest } as unknown as BuildSite & { seat: Builder } };
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

verifies("pod-builds.judged", "a bundle that a seat has made up leaves the bundle as it was", async () => {
  // oxlint-disable-next-line no-unsafe-type-assertion
  const remote = { maxFolderBytes: 1_000 } as RemoteBuilds;
  for (const [why, fill] of CASES) {
    const seat = await hostileSeat(fill);
    const { root, site } = siteOf(seat);
    const refused = await bringBundleBack(site, remote).catch((error: unknown) => error);
    expect(refused).toMatchObject({ name: "BuildError", message: expect.stringContaining(why) });
    expect(readdirSync(root)).toEqual(["aside", "bundle"]);
    expect(readdirSync(site.bundleDir)).toEqual(["main.py"]);
  }
});

verifies("pod-builds.judged", "an archive is stored as it comes, if all of it has come", async () => {
  const stored: Buffer[] = [];
  const blobs = {
    put: async (content: AsyncIterable<Buffer>) => {
      for await (const piece of content) stored.push(piece);
      return { hash: "", bytes: 0, putAt: 0 };
    },
  };
  // oxlint-disable-next-line no-unsafe-type-assertion
  const remote = { blobs, maxFolderBytes: 1_000 } as unknown as RemoteBuilds;
  const { signal } = new AbortController();
  const packed = gzipSync("anything");
  const whole = withDigest(packed);
  await storeFromSeat(seatOf(whole), remote, signal);
  expect(Buffer.concat(stored)).toEqual(packed);
  const changed = Buffer.from(whole);
  changed[5] = 7;
  for (const [why, sent] of [
    ["it ends too early", whole.subarray(0, -1)],
    ["it ends too early", changed],
    ["it ends too early", Buffer.alloc(0)],
    ["it ends too early", withDigest(Buffer.alloc(0))],
    // The service would decompress it for every replica.
    ["it is not compressed as it should be", withDigest(zstdCompressSync("anything"))],
    ["it is not compressed as it should be", withDigest(Buffer.alloc(512))],
    ["it holds too much", withDigest(Buffer.concat([packed, Buffer.alloc(1_000)]))],
  ] as const) {
    const refused = await storeFromSeat(seatOf(sent), remote, signal).catch((error: unknown) => error);
    expect(refused).toMatchObject({ name: "BuildError", message: expect.stringContaining(why) });
  }
});

verifies("pod-builds.order", "mistakes that are none are not told", async () => {
  for (const line of ["no JSON", "null", '{"file":"main.py","line":1,"text":{},"message":"x"}']) {
    const said: string[] = [];
    const seat = await hostileSeat(async () => {}, [line, "done"]);
    await compileBundle("/usr/bin/python3", false, true, siteOf(seat, said).site);
    expect(said).toEqual(["warning: could not precompile the bundle"]);
  }
});
