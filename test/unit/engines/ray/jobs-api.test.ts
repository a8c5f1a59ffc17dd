import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { checkRay } from "../../../../src/cli/operator/doctor/engine-checks.ts";
import { describeRayTrouble, JobsApi, openJobsApi, whyTooOld } from "../../../../src/engines/ray/jobs-api.ts";
import { PlayedRay } from "../../../support/ray/played-ray.ts";
import { testSettings } from "../../../support/test-settings.ts";
import { verifies } from "../../../verifies.ts";

const failureOf = async (work: Promise<unknown>): Promise<string> =>
  await work.then(
    () => "none",
    (error: unknown) => describeRayTrouble(error),
  );

verifies("ray.api", "a refusal is told in plain words, and no answer is too long", async () => {
  const ray = await PlayedRay.listen();
  const api = new JobsApi(ray.address, () => null);
  expect(await api.look("millrace-unknown")).toBeNull();
  ray.answer = (response) => void response.writeHead(401).end("no");
  expect(await failureOf(api.version())).toContain("Ray refused the token");
  ray.answer = (response) =>
    void response.writeHead(500).end("Traceback (most recent call last):\n  …\nValueError: no");
  expect(await failureOf(api.version())).toBe("Ray answered 500: ValueError: no");
  ray.answer = (response) => void response.end("<html>");
  expect(await failureOf(api.version())).toBe("Ray cannot be reached: Ray answered with no JSON");
  ray.answer = (response) => void response.end(`{"logs": "${"x".repeat(5_000_000)}"}`);
  expect(await failureOf(api.log("a"))).toContain("an answer of Ray is too large");
  ray.answer = (response) => void response.destroy();
  expect(await failureOf(api.version())).toContain("Ray cannot be reached");
});

verifies(
  "ray.api",
  "an answer that breaks off, or comes too slowly, has an end, and ends nothing else",
  async () => {
    const ray = await PlayedRay.listen();
    const api = new JobsApi(ray.address, () => null, 300);
    // With an end that the reader of the answer hears of, and the request too.
    ray.answer = ({ socket }) => {
      socket?.write('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"ray', () => socket.resetAndDestroy());
    };
    expect(await failureOf(api.version())).toContain("Ray cannot be reached");
    let isOver = false;
    ray.answer = (response) => {
      const drip = (): void => void (isOver || (response.write(" "), setImmediate(drip)));
      response.writeHead(200);
      drip();
    };
    expect(await failureOf(api.version())).toContain("Ray cannot be reached");
    isOver = true;
  },
);

verifies("ray.api", "files go there once, by their name", async () => {
  const ray = await PlayedRay.listen();
  const api = new JobsApi(ray.address, () => null);
  await api.bring("a.zip", Buffer.from("one"));
  await api.bring("a.zip", Buffer.from("two"));
  expect(ray.packages.get("a.zip")?.toString()).toBe("one");
});

test("the token is shown with each request; one in a file is read anew", async () => {
  const ray = await PlayedRay.listen();
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-ray-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const rayTokenFile = path.join(folder, "token");
  const settings = testSettings({ rayAddress: ray.address, rayTokenFile });
  const api = openJobsApi(settings);
  for (const token of ["first", "second"]) {
    writeFileSync(rayTokenFile, `${token}\n`);
    await api.version();
  }
  expect(ray.tokens).toEqual(["Bearer first", "Bearer second"]);
  expect(() => openJobsApi(testSettings({}))).toThrow("MILLRACE_RAY_ADDRESS");
});

verifies("ray.old", "the versions that are too old are named, with what is needed", () => {
  expect(whyTooOld("2.39.0")).toBe("the cluster has Ray 2.39.0; 2.40 or newer is needed");
  expect(whyTooOld("2.60.0", "3.8.19")).toBe("the cluster has Python 3.8.19; 3.9 or newer is needed");
  for (const version of ["2.40.0", "2.60.0", "3.0.0.dev0"]) expect(whyTooOld(version, "3.10.1")).toBeNull();
});

verifies("ray.doctor", "doctor tells whether the cluster answers, and is new enough", async () => {
  const ray = await PlayedRay.listen();
  const settings = testSettings({ engine: "ray", rayAddress: ray.address });
  const ok = (message: string) => ({ status: "ok", message });
  const warn = (words: string) => ({ status: "warn", message: expect.stringContaining(words) });
  const fail = (words: string) => ({ status: "fail", message: expect.stringContaining(words) });
  const healthy = `${ray.address}: Ray 2.60.0`;
  expect(await checkRay(settings)).toMatchObject(ok(healthy));
  const walls = async (level: "none" | "userns", gap: string | null) =>
    await checkRay(settings, { level, gap });
  expect(await walls("userns", null)).toMatchObject(ok(`${healthy}; isolation of apps there: userns`));
  expect(await walls("userns", "no ptrace")).toMatchObject(warn("they can connect to Ray itself: no ptrace"));
  expect(await walls("none", "no seccomp")).toMatchObject(warn("(no seccomp)"));
  ray.version = "2.9.3";
  expect(await checkRay(settings)).toMatchObject(fail("2.40 or newer is needed"));
  ray.answer = (response) => void response.writeHead(403).end();
  expect(await checkRay(settings)).toMatchObject(fail("Ray refused the token"));
  expect(await checkRay(testSettings({}))).toMatchObject(ok("not used: MILLRACE_ENGINE is process"));
  expect(await checkRay(testSettings({ engine: "ray" }))).toMatchObject(fail("MILLRACE_RAY_ADDRESS"));
});
