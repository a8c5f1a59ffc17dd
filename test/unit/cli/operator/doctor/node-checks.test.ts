import path from "node:path";
import { once } from "node:events";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { expect, onTestFinished } from "vitest";
import {
  checkAppHosts,
  checkMasterKey,
  checkNodes,
} from "../../../../../src/cli/operator/doctor/node-checks.ts";
import type { DatabaseReport } from "../../../../../src/store/upkeep/report.ts";
import { testSettings } from "../../../../support/test-settings.ts";
import { verifies } from "../../../../verifies.ts";

const HOME = "11111111-2222-4333-8444-555555555555";
/** A port that nobody may use without privileges, and nobody does. */
const AWAY = "https://127.0.0.1:1";

function scratch(): string {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-check-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return folder;
}

/** An address that takes connections until the test ends. */
async function listening(): Promise<string> {
  const server = createServer((socket) => socket.destroy()).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  return `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function withNodes(nodes: DatabaseReport["nodes"] & object): DatabaseReport {
  const audit = { count: 0, brokenAt: null };
  return {
    problems: [],
    migrations: [],
    objects: [],
    versions: [],
    amounts: { runs: 0, payloadBytes: 0, logBytes: 0, builds: 0, deliveries: 0 },
    newestAt: null,
    audit,
    nodes,
  };
}

verifies("nodes.doctor", "a service alone needs no address, and has no others", async () => {
  expect(await checkNodes(testSettings({ dataDir: scratch() }), null)).toMatchObject([
    { check: "node address", status: "ok", message: expect.stringContaining("SQLite") },
    { check: "other nodes", status: "ok", message: "none" },
  ]);
});

verifies(
  "nodes.doctor",
  "nodes that cannot be reached are told by name, this one's address too",
  async () => {
    const dataDir = scratch();
    const databaseUrl = "postgres://db.invalid/millrace";
    const at = await listening();
    const near = { name: "near", url: at, home: "near" };
    const lost = testSettings({ dataDir, databaseUrl, nodeUrl: "https://no-such-host.invalid:4200" });
    expect(await checkNodes(lost, withNodes([near]))).toMatchObject([
      { status: "fail", message: expect.stringContaining("https://no-such-host.invalid:4200: ") },
      { status: "ok", message: "reached near" },
    ]);
    writeFileSync(path.join(dataDir, "directory-id"), `${HOME}\n`);
    const settings = testSettings({ dataDir, databaseUrl });
    const self = { name: "self", url: at, home: HOME };
    expect(await checkNodes(settings, withNodes([self]))).toMatchObject([
      { status: "ok", message: `${at} answers` },
      { status: "ok", message: "none" },
    ]);
    const far = { name: "far", url: AWAY, home: "far" };
    expect(await checkNodes(settings, withNodes([near, far, { ...self, url: AWAY }]))).toMatchObject([
      { status: "fail", message: expect.stringContaining(AWAY), remedy: expect.stringContaining("NODE_URL") },
      {
        status: "fail",
        message: expect.stringMatching(/^could not reach far at https:\/\/127\.0\.0\.1:1: /),
      },
    ]);
  },
);

verifies("nodes.doctor", "a key file that is missing, open to others or no key is found", () => {
  const [dataDir, masterKeyFile] = [scratch(), path.join(scratch(), "key")];
  expect(checkMasterKey(testSettings({ dataDir }))).toMatchObject({ status: "ok" });
  const check = () => checkMasterKey(testSettings({ dataDir, masterKeyFile }));
  expect(check()).toMatchObject({ status: "fail", message: expect.stringContaining("does not exist") });
  writeFileSync(masterKeyFile, `${Buffer.alloc(32, 7).toString("base64")}\n`, { mode: 0o600 });
  expect(check()).toMatchObject({ status: "ok", message: masterKeyFile });
  chmodSync(masterKeyFile, 0o644);
  expect(check()).toMatchObject({ status: "fail", message: expect.stringContaining("chmod 600") });
  chmodSync(masterKeyFile, 0o600);
  writeFileSync(masterKeyFile, "short");
  expect(check()).toMatchObject({ status: "fail", message: expect.stringContaining("does not hold") });
});

verifies("origins.doctor", "a wildcard that leads nowhere is told, with what to do", async () => {
  const asked: string[] = [];
  const lookUp = async (name: string): Promise<{ address: string }> => {
    asked.push(name);
    if (name.endsWith("missing.example")) throw new Error("getaddrinfo ENOTFOUND");
    return { address: "203.0.113.7" };
  };
  expect(await checkAppHosts({ appHosts: null }, lookUp)).toMatchObject({ status: "ok" });
  expect(asked).toEqual([]);
  expect(await checkAppHosts({ appHosts: "apps.example" }, lookUp)).toMatchObject({
    status: "ok",
    message: "*.apps.example resolves to 203.0.113.7",
  });
  expect(await checkAppHosts({ appHosts: "missing.example" }, lookUp)).toMatchObject({
    status: "warn",
    message: "*.missing.example does not resolve here: getaddrinfo ENOTFOUND",
    remedy: expect.stringContaining("DNS record for *.missing.example") as string,
  });
});
