import { randomInt } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, onTestFinished, type TestContext } from "vitest";
import { Command, run, scratchDirectory } from "../../support/command-line.ts";
import { testService } from "../../support/service.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const MAIN = `
def run(n):
    return n + 1

def count():
    for n in range(3):
        yield n
`;
const CALLS = 12;

/** Skips the test, and says why, where there is no such program. */
async function requireProgram(name: string, context: TestContext): Promise<void> {
  const { code } = await run("sh", ["-c", `command -v ${name}`]);
  if (code === 0) return;
  process.stderr.write(`\nNOT TESTED: ${name} is not installed: ${context.task.name}\n`);
  context.skip(`${name} is not installed`);
}

/** An address of this machine that no other test listens on. */
function ownAddress(): string {
  return `127.${randomInt(1, 255)}.${randomInt(1, 255)}.${randomInt(1, 255)}`;
}

const BALANCERS = [
  {
    program: "caddy",
    file: "Caddyfile",
    args: (file: string) => ["run", "--adapter", "caddyfile", "--config", file],
    // The file says where it listens.
    listen: (text: string, address: string) => text.replaceAll(/^:(\d+) \{/gm, `http://${address}:$1 {`),
  },
  {
    program: "nginx",
    file: "nginx.conf",
    args: (file: string) => [
      "-p",
      path.dirname(file),
      "-e",
      "stderr",
      "-c",
      file,
      "-g",
      "daemon off; pid pid;",
    ],
    listen: (text: string, address: string) =>
      text.replaceAll(/listen (\d+);/g, `listen ${address}:$1;`).replace("http {", "http { access_log off;"),
  },
];

for (const { program, file, args, listen } of BALANCERS) {
  verifies(
    "packaging.cluster",
    `behind ${program} calls and streams find the one node of three that is up`,
    async (context) => {
      await requireProgram(program, context);
      const { service } = await testService({ app: { main: MAIN } });
      const { owner } = service;
      const [apiPort, basePort] = [service.apiUrl, service.baseUrl].map((url) => new URL(url).port);
      const address = ownAddress();
      const config = listen(readFileSync(path.join(REPOSITORY, "packaging/cluster", file), "utf8"), address)
        // Nothing listens at the second and the third.
        .replaceAll(/node-(\d):4000/g, `127.0.0.$1:${apiPort}`)
        .replaceAll(/node-(\d):4100/g, `127.0.0.$1:${basePort}`)
        .replace("health_port 4100", `health_port ${basePort}`);
      const own = path.join(scratchDirectory(), file);
      writeFileSync(own, config);
      const balancer = new Command(program, args(own), { env: { XDG_DATA_HOME: path.dirname(own) } });
      onTestFinished(async () => {
        balancer.child.kill("SIGTERM");
        await balancer.exited;
      });
      await until("the balancer answers", async () => {
        const answer = await fetch(`http://${address}:4100/readyz`).catch(() => null);
        return answer?.status === 200;
      });
      const headers = { authorization: `Bearer ${owner.token}`, "content-type": "application/json" };
      const app = `http://${address}:4000/v4/${owner.projectId}/app`;
      const answers = await Promise.all(
        Array.from({ length: CALLS }, async (_, n) => {
          const response = await fetch(`${app}/run`, {
            method: "POST",
            headers,
            body: JSON.stringify({ n }),
          });
          return [response.status, ((await response.json()) as { result: number }).result];
        }),
      );
      expect(answers).toEqual(Array.from({ length: CALLS }, (_, n) => [200, n + 1]));
      const stream = await fetch(`${app}/count`, {
        method: "POST",
        headers: { ...headers, accept: "text/event-stream" },
        body: "{}",
      });
      expect([...(await stream.text()).matchAll(/^data: ?(\d)$/gm)].map(([, n]) => n)).toEqual([
        "0",
        "1",
        "2",
      ]);
    },
  );
}
