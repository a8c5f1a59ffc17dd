import { createHash } from "node:crypto";
import { expect, onTestFinished } from "vitest";
import { JobsApi } from "../../../../src/engines/ray/jobs-api.ts";
import { createLog } from "../../../../src/kit/log.ts";
import { SupervisorJob } from "../../../../src/engines/ray/supervisor-job.ts";
import { HandClock } from "../../../support/clocks.ts";
import { PlayedRay } from "../../../support/ray/played-ray.ts";
import { until } from "../../../support/until.ts";
import { verifies } from "../../../verifies.ts";

const HOME = { address: "127.0.0.1:4300", authority: "a certificate", graceMs: 30_000 };
const TOKEN = "0123456789abcdef0123456789abcdef";
const PROOF = `Running entrypoint…\nmillrace supervisor ${createHash("sha256").update(TOKEN).digest("hex")}\n`;

/** A job of a played cluster, by a clock that a test moves. */
async function start(onPack = (): void => {}) {
  const ray = await PlayedRay.listen();
  const clock = new HandClock();
  const job = new SupervisorJob({
    api: new JobsApi(ray.address, () => null),
    pack: async () => {
      onPack();
      return { name: "a.zip", archive: Buffer.from("files") };
    },
    namespace: "millrace-test",
    home: HOME,
    clock,
    log: createLog("silent"),
  });
  onTestFinished(async () => {
    for (const { id } of ray.jobs.values()) ray.jobs.delete(id);
    await clock.passDuring(job.stop());
  });
  await until("a job is submitted", () => ray.jobs.size > 0, ray.condition);
  return { ray, clock, job };
}

verifies("ray.proof", "only who shows the token whose hash the job has printed is taken in", async () => {
  const { ray, job } = await start();
  const { id, body } = ray.job;
  expect(await job.isOurs(id, TOKEN)).toBe(false);
  ray.job.log = PROOF;
  expect(await job.isOurs(id, TOKEN.replace("0", "f"))).toBe(false);
  expect(await job.isOurs("millrace-another00000", TOKEN)).toBe(false);
  // A later line does not change it.
  ray.job.log += `millrace supervisor ${"0".repeat(64)}\n`;
  expect(await job.isOurs(id, TOKEN)).toBe(true);
  ray.answer = (response) => void response.destroy();
  expect(await job.isOurs(id, TOKEN)).toBe(true);
  const [, order = ""] = /^exec python3 -m millrace_ray (\S+)$/.exec(String(body["entrypoint"])) ?? [];
  const told = JSON.parse(Buffer.from(order, "base64").toString()) as object;
  expect(told).toEqual({ id, namespace: "millrace-test", ...HOME, addresses: [HOME.address] });
  expect(body["runtime_env"]).toEqual({ working_dir: "gcs://a.zip" });
});

verifies("ray.supervisor", "one that has ended is started again, at once if it had been here", async () => {
  const { ray, job, clock } = await start();
  const first = ray.job;
  expect(job.trouble).toContain("has not started the supervisor");
  job.setConnected(true);
  expect(job.trouble).toBeNull();
  first.log = "ValueError: no such thing\n";
  first.status = "FAILED";
  job.setConnected(false);
  await until("another is submitted", () => ray.jobs.size === 2, ray.condition);
  expect(job.trouble).toBe("the supervisor of this service on Ray has ended: ValueError: no such thing");
  // That one is away, and comes back; its job has not ended.
  job.setConnected(true);
  job.setConnected(false);
  job.setConnected(true);
  job.setConnected(false);
  await clock.passDuring(until("a third is submitted", () => ray.jobs.size === 3));
  const [, second, third] = ray.jobs.values();
  await until("the one that stayed away is ended", () => second?.status === "STOPPED", ray.condition);
  expect(third?.status).toBe("RUNNING");
});

verifies("ray.supervisor", "one that comes back while another is submitted is not lost", async () => {
  const back = { now: (): void => {} };
  const { ray, job, clock } = await start(() => back.now());
  back.now = () => job.setConnected(true);
  job.setConnected(true);
  job.setConnected(false);
  await clock.passDuring(until("another is submitted", () => ray.jobs.size === 2));
  expect(job.trouble).toBeNull();
});

verifies(
  "ray.supervisor",
  "while Ray does not answer, it is asked again, and nothing is given up",
  async () => {
    const { ray, job, clock } = await start();
    ray.answer = (response) => void response.destroy();
    await clock.passDuring(
      until("that is told", () => job.trouble?.startsWith("Ray cannot be reached") ?? false),
    );
    ray.answer = null;
    const { length } = ray.tokens;
    await clock.passDuring(until("it asks again", () => ray.tokens.length > length));
    expect(ray.jobs.size).toBe(1);
  },
);
